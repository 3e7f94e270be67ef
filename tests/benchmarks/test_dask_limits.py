"""The limits of a scheduler, on few units."""

from __future__ import annotations

import json

import pytest

from benchmarks import dask_limits
from benchmarks.limits.case import WAYS


def test_every_way_gives_all_units_and_a_page(tmp_path):
    few = ["--units", "30", "60", "--workers", "1"]
    assert dask_limits.main([*few, "--results", str(tmp_path)]) == 0
    (kept,) = tmp_path.glob("*.json")
    lines = json.loads(kept.read_text())["lines"]
    assert len(lines) == 2 * 2 * len(WAYS)
    for line in lines:
        assert line["n_done"] == line["n_units"]
        assert line["peak_bytes"] >= line["bytes_before"] > 1e7
        assert line["cpu_seconds"] >= line["caller_cpu_seconds"] > 0
    page = kept.with_suffix(".md").read_text()
    assert "Goals at 60 units" in page
    assert "in the clear" in page


@pytest.mark.parametrize("argv", [["--units", "0"], ["--workers", "0"]])
def test_a_mistake_is_one_line(argv, capsys):
    assert dask_limits.main(argv) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{dask_limits.COMMAND}: {argv[0]}: must be at least 1, got 0")
