"""The study's grid beside a sample of a peer's cells."""

from __future__ import annotations

import json
from collections import Counter

from benchmarks import study_grid
from benchmarks.grid_search.lines import make_problem


def test_every_value_has_its_turn():
    problem = make_problem(
        "digits", Cs=(1.0, 10.0, 100.0), gammas=(1e-3, 1e-2), n_folds=3, limit=90
    )
    cells = study_grid.drawn(problem, 6)
    assert set(Counter(C for C, _, _ in cells).values()) == {2}
    assert set(Counter(gamma for _, gamma, _ in cells).values()) == {3}
    assert set(Counter(fold for _, _, fold in cells).values()) == {2}


def test_a_small_grid_keeps_a_page(tmp_path):
    words = [
        "--dataset",
        "digits",
        "--limit",
        "200",
        "--folds",
        "2",
        "--n-c",
        "3",
        "--n-gamma",
        "2",
        "--sample",
        "6",
        "--results",
        str(tmp_path),
    ]
    assert study_grid.main(words) == 0
    (page,), (kept,) = tmp_path.glob("*.md"), tmp_path.glob("*.json")
    record = json.loads(kept.read_text())
    assert record["n_cells"] == 12
    assert len(record["cells"]) == 6
    assert all(abs(cell["n_errors"] - cell["n_errors_ours"]) <= 1 for cell in record["cells"])
    whole = sum(cell["seconds"] for cell in record["cells"]) * 2
    assert f"{whole / record['cpu_seconds']:.0f} ×" in page.read_text()
