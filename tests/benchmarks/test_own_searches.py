"""The benchmark of scikit-learn's own searches measures both, and says what differs."""

from __future__ import annotations

import json

from benchmarks import own_searches


def test_a_search_is_measured(tmp_path, capsys):
    words = ["--search", "Lasso", "--repeat", "1", "--results", str(tmp_path)]
    assert own_searches.main(words) == 0
    (path,) = tmp_path.glob("*.json")
    (line,) = json.loads(path.read_text())["searches"]
    assert line["n_candidates"] == 30
    assert line["same_candidate"]
    assert line["difference"] < 1e-9
    assert "GridSearchCV(Lasso), diabetes" in capsys.readouterr().out
    (page,) = tmp_path.glob("*.md")
    assert "| same" in page.read_text()


def test_another_best_candidate_ends_with_1(monkeypatch, tmp_path, capsys):
    line = {
        "plain_seconds": 2.0,
        "accelerated_seconds": 1.0,
        "n_candidates": 3,
        "same_candidate": False,
        "difference": None,
    }
    monkeypatch.setattr(own_searches, "measure", lambda search, repeat: line)
    assert own_searches.main(["--search", "Lasso", "--results", str(tmp_path)]) == 1
    assert "another candidate is the best" in capsys.readouterr().err
