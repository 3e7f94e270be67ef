"""Tasks of a bagging run: what each trains, and what chance decides, drawn from one seed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipelines.data.bootstrap import Bootstrap, draw_bootstrap
from pipelines.nn.inputs import Inputs
from pipelines.nn.settings import Training
from pipelines.nn.size import predicted_cost
from pipelines.nn.space import Candidate, SearchSpace

Row = dict[str, Any]


@dataclass(frozen=True)
class CandidateTask:
    """One candidate on one bootstrap sample: its folds, or the whole sample where it is refitted.

    Attributes
    ----------
    member : int
        Number of the bootstrap.
    number : int
        Of the candidate within its bootstrap.
    seed : int
        Of first weights and orders of rows; each fold gets its own from it.
    run_seed : int
        From which the bootstrap's sample is drawn again.
    own_cost : float
        Predicted, relative to other candidates.
    others : tuple of CandidateTask
        Candidates of the same bootstrap and architecture that are trained together with this one.
    """

    member: int
    number: int
    candidate: Candidate
    seed: int
    n_folds: int
    run_seed: int
    own_cost: float = 1.0
    others: tuple[CandidateTask, ...] = ()

    @property
    def name(self) -> str:
        """The task's name on the dashboard; Dask groups tasks by what precedes the dash."""
        numbers = ",".join(str(one.number) for one in (self, *self.others))
        return f"nn-member={self.member} candidate={numbers}"

    @property
    def each(self) -> tuple[CandidateTask, ...]:
        """The candidates alone, which rows and the journal know."""
        return replace(self, others=()), *self.others

    @property
    def cost(self) -> float:
        """Predicted, of all that are trained together."""
        return sum(one.own_cost for one in (self, *self.others))


def generators_of(seed: int, count: int) -> list[np.random.Generator]:
    """Return a generator for each network of a task; each draws its weights, then its orders."""
    return [np.random.default_rng(one) for one in np.random.SeedSequence(seed).spawn(count)]


def bootstrap_generator(seed: int, member: int) -> np.random.Generator:
    """Return the generator of one bootstrap, that of ``SeedSequence(seed).spawn(n)[member]``."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(member,)))


def redraw_sample(
    y: np.ndarray, n_folds: int, seed: int, member: int, weights: np.ndarray | None = None
) -> Bootstrap:
    """Return the bootstrap of one member, whose seeds are known and whose rows are not.

    With ``weights`` of the rows the folds are the same, and the rows drawn in proportion.
    """
    return draw_bootstrap(y, n_folds, bootstrap_generator(seed, member), weights)


def _seed(generator: np.random.Generator) -> int:
    return int(generator.integers(0, 2**63))


def split_tasks(
    y: np.ndarray,
    inputs: Inputs,
    space: SearchSpace,
    *,
    n_bootstrap: int,
    n_candidates: int,
    n_folds: int,
    seed: int,
    training: Training,
) -> tuple[list[CandidateTask], list[int]]:
    """Return all tasks of a run but the refits, and the seed of each member's refit.

    Each bootstrap has a generator of its own, so that more bootstraps change none; and more
    candidates come after the earlier ones, which stay the same.

    Raises
    ------
    InputError
        The space does not fit the data, or the folds do not.
    """
    space = space.for_images(inputs.image_shape)
    tasks, refit_seeds = [], []
    n_train = len(y) * (n_folds - 1) // n_folds
    for member in range(n_bootstrap):
        generator = bootstrap_generator(seed, member)
        draw_bootstrap(y, n_folds, generator)  # which comes before them
        refit_seeds.append(_seed(generator))
        for number in range(n_candidates):
            candidate, own = space.draw(generator), _seed(generator)
            cost = predicted_cost(candidate, inputs, n_folds, training.batch_size, n_train)
            tasks.append(CandidateTask(member, number, candidate, own, n_folds, seed, cost))
    return tasks, refit_seeds
