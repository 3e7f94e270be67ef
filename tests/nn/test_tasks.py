"""Tasks: what a run is cut into."""

from __future__ import annotations

import numpy as np

from pipelines.data.placement import FoldedData
from pipelines.nn.space import SearchSpace
from pipelines.nn.tasks import redraw_sample, split_tasks

from .conftest import DIGITS, TRAINING

SPACE = SearchSpace.load("small")


def test_a_run_is_laid_out_from_one_seed(digits: FoldedData) -> None:
    plan = {"n_folds": 3, "seed": 4, "training": TRAINING}
    tasks, seeds = split_tasks(digits.y, DIGITS, SPACE, n_bootstrap=3, n_candidates=2, **plan)
    assert len(tasks) == 6
    assert len({task.name for task in tasks}) == 6
    assert len({task.seed for task in tasks} | set(seeds)) == 9
    assert all(task.cost > 0 for task in tasks)
    # More of either leaves what was there as it was.
    more, more_seeds = split_tasks(digits.y, DIGITS, SPACE, n_bootstrap=4, n_candidates=5, **plan)
    assert set(tasks) <= set(more)
    assert more_seeds[:3] == seeds


def test_a_bootstraps_generator_is_that_of_the_study(digits: FoldedData) -> None:
    from pipelines.data.bootstrap import draw_bootstrap

    spawned = np.random.SeedSequence(9).spawn(3)[2]
    expected = draw_bootstrap(digits.y, 4, np.random.default_rng(spawned))
    sample = redraw_sample(digits.y, 4, seed=9, member=2)
    np.testing.assert_array_equal(sample.everything(), expected.everything())
