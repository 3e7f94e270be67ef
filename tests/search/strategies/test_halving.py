"""Successive halving: how many candidates go on, on how many rows, and which."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import HalvingGridSearchCV
from sklearn.tree import DecisionTreeClassifier

from pipelines.search.strategies.base import Scope, Stop
from pipelines.search.strategies.halving import Halving


def tell(strategy, scores, share):
    strategy.tell(
        {"candidate": i, "split": split, "share": share, "score": score}
        for i, score in scores.items()
        for split in strategy.scope.splits
    )


@pytest.mark.parametrize(
    ("n_candidates", "n_rows", "shares"),
    [
        (1, 9_000, []),
        (2, 9_000, []),
        (3, 9_000, [1 / 3]),
        (64, 9_000, [1 / 27, 1 / 9, 1 / 3]),
        (576, 60_000, [1 / 243, 1 / 81, 1 / 27, 1 / 9, 1 / 3]),
        (64, 1_000, [1 / 9, 1 / 3]),  # a 27th would be 37 rows for five splits
        (64, 100, []),
    ],
)
def test_the_last_round_has_all_rows_and_the_first_enough(n_candidates, n_rows, shares):
    assert Halving.fractions(n_candidates, n_rows, 5) == pytest.approx(shares)


@pytest.mark.parametrize("n_candidates", [3, 7, 27, 40])
def test_as_many_candidates_go_on_as_in_scikit_learn(n_candidates):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 2)), rng.integers(0, 2, 3000)
    grid = {"max_depth": range(1, 1 + n_candidates)}
    peer = HalvingGridSearchCV(
        DecisionTreeClassifier(), grid, factor=3, cv=2, min_resources="exhaust", refit=False
    )
    peer.fit(X, y)
    strategy = Halving(Scope([[i] for i in range(n_candidates)], 2, len(y)))
    numbers, shares = list[int](), list[float]()
    while requests := strategy.ask():
        (share,) = {request.fraction for request in requests}
        candidates = [i for request in requests for i in request.candidates]
        numbers.append(len(candidates))
        shares.append(share)
        tell(strategy, {i: -abs(i - 2) for i in candidates}, share)
    assert numbers == peer.n_candidates_
    np.testing.assert_allclose(np.array(shares) * len(y), peer.n_resources_, atol=9)


def test_the_best_third_goes_on_and_the_others_say_why():
    strategy = Halving(Scope([[0, 1, 2], [3, 4, 5]], 2, 900))
    requests = strategy.ask()
    assert requests is not None
    assert [(request.candidates, request.fraction) for request in requests] == [
        ((0, 1, 2), 1 / 3),
        ((3, 4, 5), 1 / 3),
    ]
    assert strategy.ask() == ()
    tell(strategy, {0: 0.5, 1: None, 2: 0.9, 3: 0.7, 4: 0.8, 5: 0.7}, 1 / 3)
    requests = strategy.ask()
    assert requests is not None
    assert [(request.candidates, request.fraction) for request in requests] == [
        ((2,), 1),
        ((4,), 1),
    ]
    assert strategy.stopped[3] == Stop(2, 1 / 3, pytest.approx(0.2))
    assert strategy.stopped[1] == Stop(2, 1 / 3, None), "its fit failed"
    assert sorted(strategy.stopped) == [0, 1, 3, 5]
    tell(strategy, {2: 0.8, 4: 0.9}, 1.0)
    assert strategy.ask() is None


def test_of_equal_candidates_the_first_go_on():
    strategy = Halving(Scope([[i] for i in range(9)], 2, 900))
    strategy.ask()
    tell(strategy, dict.fromkeys(range(9), 0.5), 1 / 9)
    requests = strategy.ask()
    assert requests is not None
    assert [request.candidates for request in requests] == [(0,), (1,), (2,)]
    assert {stop.behind for stop in strategy.stopped.values()} == {0.0}


def test_the_best_third_of_those_that_are_done_is_asked_for_ahead():
    strategy = Halving(Scope([[i] for i in range(9)], 2, 900))
    strategy.ask()
    assert strategy.ahead() == []
    tell(strategy, {i: i / 10 for i in range(6)}, 1 / 9)
    assert [(first.candidates, first.fraction) for first in strategy.ahead()] == [
        ((5,), 1 / 3),
        ((4,), 1 / 3),
    ]
    tell(strategy, {6: 0.9, 7: 0.0, 8: 0.0}, 1 / 9)
    requests = strategy.ask()
    assert requests is not None
    assert [request.candidates for request in requests] == [(6,), (5,), (4,)]
