"""Units of a bagging run: what one task trains; ``cross_validate`` and ``refit`` are the tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pipelines.nn.inputs import Inputs
from pipelines.nn.plan import draw_member
from pipelines.nn.settings import Training
from pipelines.nn.size import predicted_cost
from pipelines.nn.space import Candidate, SearchSpace

Row = dict[str, Any]


@dataclass(frozen=True)
class Unit:
    """One candidate of one bootstrap.

    Attributes
    ----------
    member : int
        Number of the bootstrap.
    number : int
        Of the candidate within its bootstrap.
    candidate : Candidate
    seed : int
        Of first weights and orders of rows; each fold gets its own from it.
    n_folds : int
    run_seed : int
        From which the bootstrap's sample is drawn again.
    cost : float
        Predicted, relative to the other units.
    """

    member: int
    number: int
    candidate: Candidate
    seed: int
    n_folds: int
    run_seed: int
    cost: float = 1.0


class CandidateUnit(Unit):
    """The candidate's folds trained together."""

    @property
    def name(self) -> str:
        """As the dashboard shows it; Dask takes what stands before the dash for its group."""
        return f"nn-member={self.member} candidate={self.number}"


class RefitUnit(Unit):
    """The best candidate of its bootstrap, trained on the whole sample."""

    @property
    def name(self) -> str:
        """As the dashboard shows it."""
        return f"refit-member={self.member} candidate={self.number}"


def cut_units(
    y: np.ndarray,
    inputs: Inputs,
    space: SearchSpace,
    *,
    n_bootstrap: int,
    n_candidates: int,
    n_folds: int,
    seed: int,
    training: Training,
) -> tuple[list[CandidateUnit], list[int]]:
    """All units of a run but the refits, and the seed of every member's refit.

    Raises
    ------
    InputError
        The space does not fit the data, or the folds do not.
    """
    space = space.for_inputs(inputs)
    units, refit_seeds = [], []
    n_train = len(y) * (n_folds - 1) // n_folds
    for member in range(n_bootstrap):
        draws = draw_member(y, n_folds, space, n_candidates, seed, member)
        refit_seeds.append(draws.refit_seed)
        for number, (candidate, own) in enumerate(draws.candidates):
            cost = predicted_cost(candidate, inputs, n_folds, training.batch_size, n_train)
            units.append(CandidateUnit(member, number, candidate, own, n_folds, seed, cost))
    return units, refit_seeds


def refit_unit(
    best: CandidateUnit, refit_seed: int, inputs: Inputs, n_rows: int, training: Training
) -> RefitUnit:
    """The refit of a bootstrap whose best candidate is known."""
    cost = predicted_cost(best.candidate, inputs, 1, training.batch_size, n_rows)
    return RefitUnit(
        best.member, best.number, best.candidate, refit_seed, best.n_folds, best.run_seed, cost
    )
