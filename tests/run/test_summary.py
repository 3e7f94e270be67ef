from __future__ import annotations

from types import SimpleNamespace

import pytest

from pipelines.run.summary import CELLS_NAMED, data_line, failure_lines, wall_time
from pipelines.run_folder.measures import measure_of


@pytest.mark.parametrize(
    ("limit", "rows"),
    [
        (None, "1,200 training rows, a table"),
        (1200, "1,200 training rows, a table"),
        (9000, "1,200 training rows (all available; --limit is 9,000), a table"),
    ],
)
def test_the_data(limit, rows):
    dataset = SimpleNamespace(
        name="penguins", y_train=range(1200), y_test=range(300), n_classes=3, classes="abc"
    )
    line = data_line(dataset, "a table", limit)
    assert line == f"data       penguins: {rows}, 3 classes; 300 test rows"


@pytest.mark.parametrize(
    ("record", "line"),
    [
        ({"wall_seconds": 4.21}, "wall time  4.2 s"),
        ({"wall_seconds": 185, "busy_share": 0.994}, "wall time  3:05 min, workers busy 99 %"),
        (
            {"wall_seconds": 72, "busy_share": 0.994, "compile_seconds": 64.6},
            "wall time  1:12 min, of which 1:05 min compiling (first run only), workers busy 99 %",
        ),
    ],
)
def test_wall_time(record, line):
    assert wall_time(record) == line


def test_the_first_cells_of_a_failure_are_named():
    cells = [{"C": 1 / 3, "fold": fold} for fold in range(1000, 1000 + CELLS_NAMED + 2)]
    record = {"n_cells": 9, "failures": [{"status": "failed", "count": 7, "cells": cells}]}
    (line,) = failure_lines(record, ["C", "fold"])
    assert line.startswith("warning    7 of 9 fits failed: C=0.333 fold=1000; C=0.333 fold=1001; ")
    assert line.endswith("; C=0.333 fold=1004; and 2 more")


def test_no_failure_no_line():
    assert failure_lines({"n_cells": 9, "failures": []}, ["C"]) == []


@pytest.mark.parametrize("value", [0.29375, 1 - 0.70625, 1 - (1 - 0.29375), 0.2 + 0.09375])
def test_an_error_is_rounded_alike_however_it_was_computed(value):
    assert measure_of("accuracy").text(value) == measure_of("accuracy").text(0.29375)
