from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest

from pipelines.run_folder.measures import measure_of
from pipelines.run_folder.ranking import means_of
from pipelines.search import ranking
from pipelines.search.candidates import Candidate
from pipelines.search.ranking import BestSoFar, ends_of_lists, reduce_scores, with_algorithm


def table(errors):
    return pd.DataFrame(
        [
            {"C": C, "gamma": gamma, "fold": fold, "error": error, "score": 1 - error}
            for (C, gamma), folds in errors.items()
            for fold, error in enumerate(folds)
        ]
    )


def reduce(errors, n_folds):
    return reduce_scores(table(errors), ["C", "gamma"], n_folds)


def test_ties_go_to_the_smaller_c_then_the_smaller_gamma():
    # 0.1 + 0.2 and 0.3 differ in the last bit; the candidates are tied all the same.
    errors = {
        (10.0, 0.1): [0.3, 0.0],
        (1.0, 0.1): [0.1, 0.2],
        (1.0, 0.01): [0.2, 0.1],
        (0.1, 0.1): [0.4, 0.0],
    }
    ranked = reduce(errors, 2)
    assert list(zip(ranked.C, ranked.gamma, strict=True)) == [
        (1.0, 0.01),
        (1.0, 0.1),
        (10.0, 0.1),
        (0.1, 0.1),
    ]
    assert list(ranked["rank"]) == [1, 2, 3, 4]


def test_a_candidate_with_a_failed_fold_is_last_and_has_no_mean():
    ranked = reduce({(1.0, 0.1): [0.0, np.nan], (2.0, 0.1): [0.5, 0.5]}, 2)
    assert list(ranked.C) == [2.0, 1.0]
    assert np.isnan(ranked.error_mean[1])
    assert list(ranked.n_ok) == [2, 1]


def test_the_best_has_the_highest_mean_score_whatever_its_errors():
    results = table({(1.0, 0.1): [0.1, 0.1], (2.0, 0.1): [0.2, 0.2], (0.5, 0.1): [0.3, 0.3]})
    results["score"] = [0.5, 0.6, 0.9, 0.7, 0.6, np.nan]
    ranked = reduce_scores(results, ["C", "gamma"], 2)
    assert list(ranked.C) == [2.0, 1.0, 0.5]
    assert ranked.score_mean[0] == pytest.approx(0.8)
    assert ranked.score_std[0] == pytest.approx(0.1)
    assert ranked.loc[2, ["error_mean", "score_mean"]].isna().all()


@pytest.mark.parametrize("n_parts", [1, 2, 7, 60, 61])
def test_on_workers_the_result_is_the_same_to_the_bit(n_parts, monkeypatch, one_worker):
    monkeypatch.setattr(ranking, "PARTS", n_parts)
    rng = np.random.default_rng(0)
    cells = table({(C, g): rng.random(5).tolist() for C in range(20) for g in (0.1, 0.2, 0.3)})
    cells.loc[[3, 77], ["error", "score"]] = np.nan
    cells = cells.drop(index=50).sample(frac=1, random_state=0)  # a fold is still to come
    here = reduce_scores(cells, ["C", "gamma"], 5)
    on_worker = reduce_scores(cells, ["C", "gamma"], 5, one_worker)
    pd.testing.assert_frame_equal(here, on_worker, check_exact=True)
    scores = cells.groupby(["C", "gamma"])["score"]
    of_pandas = pd.DataFrame({"mean": scores.mean(), "std": scores.std(ddof=0)})
    of_pandas = of_pandas[scores.count() == 5]
    got = here.set_index(["C", "gamma"]).loc[of_pandas.index, ["score_mean", "score_std"]]
    np.testing.assert_allclose(got, of_pandas, rtol=1e-14)


def test_means_are_rounded_once_and_infinities_stay():
    scores = np.array([[[0.97, 0.945, 0.95, 0.955]], [[-np.inf, 0.5, 0.5, np.nan]]])
    np.testing.assert_array_equal(means_of(scores)[:, 0], [0.955, -np.inf])


def has_pandas():
    return "pandas" in sys.modules


def test_where_no_worker_answers_scores_are_reduced_here(monkeypatch, one_worker):
    cells = table({(1.0, 0.1): [0.1, 0.2], (2.0, 0.1): [0.3, 0.1]})
    monkeypatch.setattr(ranking, "SECONDS_ON_WORKERS", 0)
    ranked = reduce_scores(cells, ["C", "gamma"], 2, one_worker)
    pd.testing.assert_frame_equal(ranked, reduce_scores(cells, ["C", "gamma"], 2))


def test_workers_reduce_scores_without_pandas(one_worker):
    before = one_worker.run(has_pandas)
    reduce_scores(table({(1.0, 0.1): [0.1, 0.2]}), ["C", "gamma"], 2, one_worker)
    assert one_worker.run(has_pandas) == before


def algorithms(**scores):
    """Ranked candidates of algorithms with one parameter, by its value."""
    lines = [
        {"algorithm": name, "params": f'{{"alpha": {value}}}', "score_mean": score}
        for name, of_values in scores.items()
        for value, score in of_values.items()
    ]
    return pd.DataFrame(lines).sort_values("score_mean", ascending=False)


def test_a_best_value_at_the_end_of_its_list_is_said():
    ends = ends_of_lists(
        algorithms(
            ridge={0.1: 0.5, 10.0: 0.6, 1000.0: 0.7},
            lasso={0.01: 0.9, 0.1: 0.5, 10.0: 0.6},
            between={0.1: 0.5, 10.0: 0.7, 1000.0: 0.6},
            tied={0.1: 0.5, 10.0: 0.7, 1000.0: 0.7},
            natural={1: 0.9, 3: 0.5, 5: 0.4},
            two={0.1: 0.5, 10.0: 0.7},
        )
    )
    assert ends == [
        "the best alpha of lasso, 0.01, is the smallest in its list; try smaller values",
        "the best alpha of ridge, 1000, is the largest in its list; try larger values",
    ]


def test_what_was_given_up_is_no_better_value_and_what_was_not_tried_tells_nothing():
    table = algorithms(
        raced={0.1: 0.9, 1.0: 0.0, 10.0: 0.0}, left={0.1: 0.8, 1.0: 0.0, 10.0: 0.0}
    ).assign(stopped="", behind=np.nan)
    lost = (table["score_mean"] == 0.0) & (table["algorithm"] == "raced")
    table.loc[lost, ["stopped", "behind"]] = "stopped after 2 of 5 folds, 3.0 points behind", 0.03
    table.loc[(table["score_mean"] == 0.0) & ~lost, "stopped"] = "not tried"
    table.loc[table["stopped"] != "", "score_mean"] = np.nan
    assert ends_of_lists(table) == [
        "the best alpha of raced, 0.1, is the smallest in its list; try smaller values"
    ]


def test_a_candidate_without_a_mean_has_no_other_scores_and_its_name():
    cells = pd.DataFrame(
        {
            "candidate": [0, 0, 1],
            "algorithm": "knn",
            "params": ['{"k": 1}', '{"k": 1}', '{"k": 2}'],
            "fit_seconds": [1.0, 3.0, 5.0],
            "score_seconds": 0.0,
            "score_f1": [0.5, 0.7, 0.9],
        }
    )
    candidates = pd.DataFrame({"candidate": [0, 1, 2], "score_mean": [0.6, np.nan, np.nan]})
    learned = [Candidate("knn", {"k": k}, None) for k in (1, 2, 3)]
    table = with_algorithm(candidates, cells, learned)
    assert table["params"].tolist() == ['{"k": 1}', '{"k": 2}', '{"k": 3}']
    assert table["algorithm"].tolist() == ["knn"] * 3
    assert table["score_f1_mean"].tolist() == pytest.approx([0.6, np.nan, np.nan], nan_ok=True)
    assert table["fit_seconds"].tolist() == pytest.approx([2.0, 5.0, np.nan], nan_ok=True)


def rows_of(errors):
    rows = table(errors).to_dict("records")
    places = {candidate: number for number, candidate in enumerate(sorted(errors))}
    return [{**row, "candidate": places[row["C"], row["gamma"]]} for row in rows]


@pytest.mark.parametrize("seed", range(4))
def test_the_best_so_far_is_the_best_in_the_end_whoever_comes_first(seed):
    errors = {
        (10.0, 0.1): [0.3, 0.0],
        (1.0, 0.1): [0.1, 0.2],
        (1.0, 0.01): [0.2, 0.1],
        (0.1, 0.1): [0.4, 0.0],
    }
    rows = rows_of(errors)
    np.random.default_rng(seed).shuffle(rows)
    best = BestSoFar(("C", "gamma"), order=("C", "gamma", "candidate"))
    best.add(rows)
    assert best.text == "best so far 15.00 % error on 2 folds, C = 1, gamma = 0.01"


def test_the_best_so_far_is_rounded_as_the_best_in_the_end():
    # Means of four folds whose sums, added one after the other, end below 0.29375 or above it.
    generator = np.random.default_rng(0)
    for _ in range(300):
        errors = (generator.integers(0, 40, 4) / 40).tolist()
        candidates = reduce({(1.0, 1.0): errors}, 4)
        best = BestSoFar(("C", "gamma"))
        best.add(reversed(rows_of({(1.0, 1.0): errors})))
        shown = measure_of("accuracy")
        final = shown.text(shown.of(candidates["score_mean"].iloc[0]))
        assert best.text.startswith(f"best so far {final} error on 4 folds")
