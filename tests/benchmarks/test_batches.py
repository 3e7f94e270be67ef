"""The benchmark of batches on a few rows."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("torch", reason="batches are torch's tensors")

from benchmarks import batches


@pytest.mark.slow
def test_the_comparison_keeps_a_page(tmp_path):
    options = ["--dataset", "digits", "--limit", "200", "--repeat", "2", "--results", str(tmp_path)]
    assert batches.main(options) == 0
    (kept,) = tmp_path.glob("*.json")
    record = json.loads(kept.read_text())
    assert [len(line["rows_a_second"]) for line in record["lines"]] == [2] * 5
    assert record["memory"]["grown"] < record["memory"]["file"] / 3  # the file is not in memory
    mixed = [record["mixing"][n] for n in ("1", "4", "16", "1000")]
    assert mixed == sorted(mixed, reverse=True)
    assert mixed[-1] == pytest.approx(1, abs=0.1)
    assert "against DataLoader" in kept.with_suffix(".md").read_text()


def test_a_mistake_is_one_line(capsys):
    assert batches.main(["--batch-size", "0"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{batches.COMMAND}: --batch-size: must be at least 1, got 0")
