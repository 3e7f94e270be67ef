"""Racing: what is clearly behind is given up, and the winner is that of the whole grid."""

from __future__ import annotations

import numpy as np
import pytest

from pipelines.search.strategies.base import WHOLE, Stop
from pipelines.search.strategies.race import SCREEN, Race

from .made_up import accuracies, play, row_of, scope

MEANS = np.linspace(0.7, 0.95, 20).round(4).tolist()


def splits_done(requested_cells, candidate):
    return sum(cell[0] == candidate and cell[2] == WHOLE for cell in requested_cells)


def test_candidates_that_are_clearly_behind_have_two_splits():
    requested_cells = play(race := Race(scope(20, 5)), accuracies(MEANS, 5))
    assert [splits_done(requested_cells, i) for i in (0, 1, 2)] == [2, 2, 2]
    assert splits_done(requested_cells, 19) == 5
    assert len(requested_cells) < 0.6 * 100
    assert race.stopped[0].n_splits == 2
    assert race.stopped[0].behind == pytest.approx(0.25, abs=0.02)


@pytest.mark.parametrize("seed", range(30))
def test_the_winner_is_that_of_the_whole_grid(seed):
    means = np.random.default_rng(seed).uniform(0.8, 0.95, 30).tolist()
    score = accuracies(means, 10, seed)
    requested_cells = play(race := Race(scope(30, 10, seed=seed)), score)
    mean = [np.mean([score(i, split, WHOLE) for split in range(10)]) for i in range(30)]
    best = int(np.argmax(mean))
    assert splits_done(requested_cells, best) == 10
    assert len(set(requested_cells)) < 300
    # Those that were given up are further from it than its standard error, on what they had.
    error = np.std([score(best, split, WHOLE) for split in range(10)]) / 3
    for i in race.stopped:
        splits = [split for split in range(10) if (i, split, WHOLE) in requested_cells]
        behind = [score(best, split, WHOLE) - score(i, split, WHOLE) for split in splits]
        assert np.mean(behind) > error


@pytest.mark.parametrize("share_work", [False, True])
def test_it_asks_for_the_same_whatever_the_order_of_rows(share_work):
    def race():
        return Race(scope(20, 5, 4, splits_share=share_work))

    score, generator = accuracies(MEANS, 5), np.random.default_rng(1)

    def shuffled(cells):
        return [cells[i] for i in generator.permutation(len(cells))]

    requested_cells = play(race(), score)
    assert all(play(race(), score, shuffled) == requested_cells for _ in range(5))
    # A run that is resumed has the rows of some tasks, and perhaps of others that were ahead.
    subset = [cell for cell in requested_cells if generator.random() < 0.5]
    assert play(race(), score, known_cells=[*subset, (0, 4, WHOLE)]) == requested_cells


def test_a_group_goes_by_its_best_member():
    means = [0.95, 0.5, 0.5, 0.5, *[0.6] * 16]
    requested_cells = play(
        race := Race(scope(20, 5, 4, splits_share=True, n_rows=100)), accuracies(means, 5)
    )
    assert [splits_done(requested_cells, i) for i in (0, 1, 3)] == [5, 5, 5]
    assert set(race.stopped) == set(range(4, 20))


def test_single_members_are_given_up_where_that_saves_work():
    means = [0.95, 0.5, 0.5, 0.5, *[0.6] * 16]
    requested_cells = play(Race(scope(20, 5, 4)), accuracies(means, 5))
    assert [splits_done(requested_cells, i) for i in (0, 1, 3)] == [5, 2, 2]


def test_groups_whose_splits_share_work_are_screened_on_a_share_of_the_rows():
    race = Race(scope(20, 5, 4, splits_share=True))
    requested_cells = play(race, accuracies(MEANS, 5))
    screened = [cell for cell in requested_cells if cell[2] == SCREEN]
    assert len(screened) == 20 * 3
    assert {cell[0] for cell in requested_cells if cell[2] == WHOLE} == {16, 17, 18, 19}
    assert race.stopped[0] == Stop(3, SCREEN, race.stopped[0].behind)


def test_a_candidate_that_fails_is_given_up_but_not_by_a_share_of_the_rows():
    score = accuracies([0.9] * 16, 5)
    failing = play(
        race := Race(scope(16, 5, 4, splits_share=True)),
        lambda i, split, share: None if i < 4 and share < 1 else score(i, split, share),
    )
    assert splits_done(failing, 0) == 5
    assert not race.stopped
    failing = play(
        race := Race(scope(16, 5)),
        lambda i, split, share: None if i == 3 else score(i, split, share),
    )
    assert splits_done(failing, 3) == 2
    assert race.stopped[3] == Stop(2, WHOLE, None)


def test_a_difference_of_few_rows_gives_up_nobody_early():
    def score(candidate, split, share):
        return 0.9 if candidate else 0.902  # two of a thousand rows, on every split alike

    requested_cells = play(Race(scope(8, 5)), score)
    assert all(splits_done(requested_cells, i) >= 3 for i in range(8))


def test_workers_that_would_idle_get_the_next_splits_of_the_best():
    race, score = Race(scope(20, 5)), accuracies(MEANS, 5)
    (first, *_) = race.ask() or [()]
    assert race.ahead() == ()
    cells = [cell for i in (3, 18, 19) for cell in ((i, s, WHOLE) for s in first.splits)]
    race.tell([row_of(cell, score) for cell in cells])
    ahead = race.ahead()
    assert {request.candidates for request in ahead} <= {(19,), (18,)}
    assert ahead[0].candidates in ((19,), (18,))
    assert set(ahead[0].splits).isdisjoint(first.splits)
    race.tell([row_of(cell, score) for request in ahead for cell in request.cells])
    assert not {cell for request in ahead for cell in request.cells} & set(race.requested_cells)


def test_a_wider_margin_gives_up_fewer():
    score = accuracies(MEANS, 5)
    n_asked = [len(play(Race(scope(20, 5), margin), score)) for margin in (1, 3, 10)]
    assert n_asked == sorted(n_asked)
    assert n_asked[0] < n_asked[-1]
