"""Candidates without all splits: their state, their place in the table, and what was saved."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pandas as pd
import pytest

from pipelines.search.ranking import reduce_scores
from pipelines.search.record import StrategyMetadata
from pipelines.search.strategies.base import Stop
from pipelines.search.summary import fraction_in_words, strategy_lines
from pipelines.search.unfinished import strategy_entries, with_unfinished

N_SPLITS = 5
C = [0.1, 1.0, 10.0, 100.0, 1000.0, 1e4, 1e5]
Scores = dict[float, list[float]]  # of each share of the rows


def problem(scoring="accuracy"):
    """Candidates that differ in C."""
    candidates = [SimpleNamespace(parameters={"C": value}, algorithm="svm") for value in C]
    return SimpleNamespace(
        candidates=candidates,
        columns=("C",),
        splits={("search", 1.0): range(N_SPLITS)},
        scorer=SimpleNamespace(names=(scoring,)),
    )


def cells(of_candidates):
    return pd.DataFrame(
        [
            {
                "candidate": candidate,
                "C": C[candidate],
                "share": share,
                "fold": fold if share == 1 else -1,
                "score": score,
                "error": 1 - score,
            }
            for candidate, by_share in of_candidates.items()
            for share, scores in by_share.items()
            for fold, score in enumerate(scores)
        ]
    )


RACED: dict[int, Scores] = {
    0: {1.0: [0.8, 0.7]},
    1: {1 / 3: [0.9] * 3, 1.0: [0.9] * 5},
    2: {1 / 3: [0.8] * 3, 1.0: [0.95] * 5},
    3: {1 / 3: [0.7, 0.7, 0.75]},
    4: {1 / 3: [0.8, math.nan, 0.8]},
    5: {1.0: [0.9, 0.8]},
}
STOPS = {0: Stop(2, 1.0, 0.2), 3: Stop(3, 1 / 3, 0.031), 4: Stop(3, 1 / 3, None)}


def table(raced=RACED, n_splits=N_SPLITS, scoring="accuracy"):
    every = cells(raced)
    whole = every[every["share"] == every["share"].max()]
    ranked = reduce_scores(whole, ("C", "candidate"), n_splits)
    return with_unfinished(ranked, every, problem(scoring), STOPS, "5 folds")


def test_candidates_without_all_splits_come_last_with_their_state():
    ranking = table()
    assert ranking["candidate"].tolist() == [2, 1, 5, 0, 3, 4, 6], "the more was tried, the sooner"
    assert ranking["rank"].tolist() == list(range(1, 8))
    assert ranking["C"].tolist() == [C[candidate] for candidate in ranking["candidate"]]
    assert ranking["stopped"].tolist() == [
        "",
        "",
        "out of time after 2 of 5 folds",
        "stopped after 2 of 5 folds, 20.0 points behind",
        "stopped on 1/3 of the rows, 3.1 points behind",
        "stopped on 1/3 of the rows, a fit failed",
        "not tried",
    ]
    assert ranking["n_ok"].tolist() == [5, 5, 2, 2, 0, 0, 0]
    assert ranking.loc[2:, ["score_mean", "score_std", "error_mean"]].isna().all(axis=None)
    parts = [0.95, 0.9, 0.85, 0.75, 2.15 / 3, None, None]
    assert ranking["score_part"].tolist() == pytest.approx(
        [math.nan if part is None else part for part in parts], nan_ok=True
    )
    assert ranking["behind"].tolist() == pytest.approx(
        [math.nan] * 3 + [0.2, 0.031, math.nan, math.nan], nan_ok=True
    )


def test_a_whole_grid_stays_as_it_is():
    raced = {candidate: {1.0: [0.9] * 5} for candidate in range(len(C))}
    raced[3][1.0][2] = math.nan
    ranked = reduce_scores(cells(raced), ("C", "candidate"), N_SPLITS)
    ranking = with_unfinished(ranked, cells(raced), problem(), {}, "5 folds")
    pd.testing.assert_frame_equal(ranking[ranked.columns], ranked)
    assert (ranking["stopped"] == "").all(), "a failed fit was tried"


def test_columns_keep_their_dtypes():
    every = cells(RACED)
    ranked = reduce_scores(every[every["share"] == 1.0], ("C", "candidate"), N_SPLITS)
    ranking = table()
    assert ranking.dtypes[ranked.columns].equals(ranked.dtypes)


def test_where_time_ended_first_the_ranked_have_a_state_too():
    ranking = table({0: {1.0: [0.8]}, 1: {1.0: [0.9]}, 3: {1 / 3: [0.7] * 3}}, n_splits=1)
    assert ranking["candidate"].tolist()[:3] == [1, 0, 3]
    assert ranking["score_mean"].tolist()[:3] == pytest.approx([0.9, 0.8, math.nan], nan_ok=True)
    assert ranking["stopped"][0] == "out of time after 1 of 5 folds"


@pytest.mark.parametrize(
    ("scoring", "words"), [("r2", "0.0310 behind"), ("neg_mean_absolute_error", "0.0310 behind")]
)
def test_other_scores_are_in_their_own_unit(scoring, words):
    stopped = table(scoring=scoring)["stopped"]
    assert f"stopped on 1/3 of the rows, {words}" in stopped.tolist()


@pytest.mark.parametrize(
    ("share", "words"), [(1 / 3, "1/3"), (0.25, "1/4"), (0.123456, "12.3 %"), (1 / 81, "1/81")]
)
def test_a_share_is_read_as_a_fraction_where_it_is_one(share, words):
    assert fraction_in_words(share) == words


def journal():
    yield {"seconds": 4.0, "compile_seconds": 1.0, "rows": [{"stage": "search", "share": 1 / 3}]}
    yield {"seconds": 5.0, "rows": [{"stage": "search", "share": 1.0}] * 3}
    yield {"seconds": 7.0, "rows": [{"stage": "search", "share": 1.0}]}
    yield {"seconds": 99.0, "rows": [{"stage": "inner", "share": 1.0}]}
    yield {"seconds": 99.0, "rows": []}


def test_what_a_strategy_spent_is_counted():
    entries = strategy_entries("race", table(), cells(RACED), problem(), journal())["strategy"]
    metadata = StrategyMetadata.model_validate(entries)
    assert (metadata.n_candidates, metadata.grid_fits) == (7, 35)
    assert (metadata.fits, metadata.share_fits) == (14, 12)
    assert (metadata.n_stopped, metadata.n_out_of_time, metadata.n_not_tried) == (3, 1, 1)
    parts = [(part.share, part.fits, part.seconds) for part in metadata.parts]
    assert parts == [(1 / 3, 12, 3.0), (1.0, 14, 12.0)]
    assert metadata.left_out == {}
    begun = {1: {1.0: [0.8]}}
    grid_entries = strategy_entries("grid", table(begun, 1), cells(begun), problem(), ())
    assert grid_entries["strategy"]["left_out"] == {"svm": "out of time after 1 of 5 folds"}


def console_lines(**changes):
    entries = strategy_entries("race", table(), cells(RACED), problem(), journal())["strategy"]
    options = {"folds": N_SPLITS, "time_budget": 600.0}
    return list(strategy_lines({"strategy": entries | changes, "options": options}))


def test_the_console_says_what_was_spent_and_what_time_left():
    assert console_lines() == [
        "race       14 of 35 fits, and 12 on 1/3 of the rows: 3 of 7 candidates stopped early",
        "not tried  1 of 7 candidates, and 1 not on all 5 folds: "
        "the time budget of 10:00 min ended",
    ]
    assert console_lines(n_stopped=0, share_fits=0, n_out_of_time=0) == [
        "race       14 of 35 fits: none of 7 candidates stopped early",
        "not tried  1 of 7 candidates: the time budget of 10:00 min ended",
    ]
    assert console_lines(n_not_tried=0)[1] == (
        "not tried  1 of 7 candidates not on all 5 folds: the time budget of 10:00 min ended"
    )
    assert (
        console_lines(name="random", n_stopped=0, share_fits=0, n_out_of_time=0, n_not_tried=0)
        == []
    )
    assert list(strategy_lines({"options": {}})) == [], "of a grid nothing"
