"""Algorithms over several data sets: ranks, and who is told apart."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipelines.report.comparison import write_comparison
from pipelines.report.data_sets import Ranks, rank_over_sets


def test_ranks_and_the_critical_difference_are_those_of_demsar() -> None:
    # 14 data sets and four classifiers: Demšar 2006, section 3.2.2, where CD = 1.25.
    scores = pd.DataFrame(np.tile([4.0, 3.0, 2.0, 1.0], (14, 1)), columns=list("abcd"))
    found = rank_over_sets(scores)
    assert found.means == {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}
    assert found.difference == pytest.approx(1.25, abs=0.005)
    assert found.p < 1e-6
    assert found.cliques == [["a", "b"], ["b", "c"], ["c", "d"]]


def test_ties_share_their_ranks() -> None:
    found = rank_over_sets(pd.DataFrame([[1, 1, 0], [2, 1, 1], [3, 1, 2]], columns=list("abc")))
    assert found.means == pytest.approx({"a": (1.5 + 1 + 1) / 3, "b": (1.5 + 2.5 + 3) / 3,
                                         "c": (3 + 2.5 + 2) / 3})  # fmt: skip


def test_cliques_are_the_largest() -> None:
    ranks = Ranks({"a": 1.0, "b": 1.5, "c": 1.9, "d": 4.0}, 5, 0.1, 1.0)
    assert ranks.cliques == [["a", "b", "c"]]


def run(folder: Path, name: str, scores: dict[str, float]) -> Path:
    """A folder as a finished run leaves it, less what is not compared."""
    folder.mkdir()
    algorithms = [
        {"algorithm": key, "candidate": i, "parameters": {}, "score_mean": score, "score_std": 0.0}
        for i, (key, score) in enumerate(scores.items())
    ]
    about = {
        "command": "cross_validate", "status": "finished", "wall_seconds": 1.0, "n_cells": 3,
        "dataset": {"name": name, "n_train": 10, "n_test": 2, "fingerprint": name},
        "best": {"algorithm": "tree", "candidate": 0, "score_mean": 0.5, "score_std": 0.1},
        "algorithms": algorithms, "scoring": ["accuracy"], "fits_asked": 3, "fits_made": 3,
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(about))
    return folder


def test_runs_on_several_data_sets_are_drawn(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    folders = [
        run(tmp_path / name, name, dict(zip(("tree", "knn", "ridge"), rng.random(3), strict=True)))
        for name in ("iris", "wine", "digits", "cancer")
    ]
    page = write_comparison(folders, tmp_path / "all.html").read_text()
    assert "Mean ranks of 3 algorithms over 4 data sets" in page
    page = write_comparison(folders[:2], tmp_path / "few.html").read_text()
    assert "Mean ranks" not in page, "two data sets are no sample"
