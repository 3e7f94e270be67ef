"""The two tasks of a bagging run: a candidate's folds, and a member from the best candidate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from pipelines.data.placement import FoldedData
from pipelines.nn.inputs import Inputs
from pipelines.nn.settings import Training
from pipelines.nn.space import SearchSpace
from pipelines.nn.train import Told
from pipelines.nn.units import (
    CandidateUnit,
    Refitted,
    Row,
    cross_validate_unit,
    cut_units,
    refit,
    refit_unit,
)
from pipelines.run_folder.ranking import candidates_of


@dataclass(frozen=True)
class MemberUnit:
    """The refit of one bootstrap: it needs the rows of its own candidates, and no others.

    Attributes
    ----------
    member : int
    candidates : tuple of CandidateUnit
    refit_seed : int
    refitted : int
        Number of the candidate that was refitted before, -1 for none; if it still is the
        best there is nothing to do.
    """

    member: int
    candidates: tuple[CandidateUnit, ...]
    refit_seed: int
    refitted: int = -1

    @property
    def name(self) -> str:
        """As the dashboard shows it; Dask takes what stands before the dash for its group."""
        return f"refit-member={self.member}"

    @property
    def needs(self) -> tuple[str, ...]:
        """The units whose rows decide which candidate is the best."""
        return tuple(unit.name for unit in self.candidates)

    @property
    def cost(self) -> float:
        """Predicted, of a refit of a typical one of the candidates."""
        return float(np.mean([unit.cost / (unit.n_folds - 1) for unit in self.candidates]))


BaggingUnit = CandidateUnit | MemberUnit


@dataclass(frozen=True)
class Plan:
    """All that a run is to train; it depends on the options and the seed alone.

    Attributes
    ----------
    inputs : Inputs
    training : Training
    candidates : list of CandidateUnit, member by member
    members : list of MemberUnit
    """

    inputs: Inputs
    training: Training
    candidates: list[CandidateUnit] = field(default_factory=list)
    members: list[MemberUnit] = field(default_factory=list)

    @classmethod
    def draw(
        cls,
        y: np.ndarray,
        inputs: Inputs,
        space: SearchSpace,
        training: Training,
        *,
        n_bootstrap: int,
        n_tuning: int,
        n_folds: int,
        seed: int,
    ) -> Plan:
        """Draw bootstraps and candidates.

        Raises
        ------
        InputError
            The space does not fit the data, or the folds do not.
        """
        units, seeds = cut_units(
            y, inputs, space, n_bootstrap=n_bootstrap, n_candidates=n_tuning, n_folds=n_folds,
            seed=seed, training=training,
        )  # fmt: skip
        members = [
            MemberUnit(member, tuple(unit for unit in units if unit.member == member), refit_seed)
            for member, refit_seed in enumerate(seeds)
        ]
        return cls(inputs, training, units, members)

    def on(self, device: str) -> Plan:
        """The same plan for another device."""
        return replace(self, training=replace(self.training, device=device))


def best_candidate(
    candidates: Sequence[CandidateUnit], rows: Sequence[Sequence[Row] | None]
) -> CandidateUnit | None:
    """The candidate of the smallest mean validation loss; among equals the first.

    Parameters
    ----------
    candidates : sequence of CandidateUnit
    rows : the rows of each, None where its task failed

    Returns
    -------
    CandidateUnit, or None where not one was trained on all its folds
    """
    import pandas as pd

    cells = pd.DataFrame([row for own in rows for row in own or ()], columns=["candidate", "loss"])
    if cells.empty:
        return None
    cells = cells.assign(error=0.0, score=-cells["loss"].astype(float))
    best = candidates_of(cells, ["candidate"], candidates[0].n_folds).iloc[:1]
    best = best[best["score_mean"].notna()]
    return next((unit for unit in candidates if unit.number in best["candidate"].values), None)


def carry_out(
    data: FoldedData,
    unit: BaggingUnit,
    needed: Sequence[list[Row] | None] = (),
    *,
    inputs: Inputs,
    training: Training,
    tell: Told = lambda share: None,
) -> list[Row] | Refitted | None:
    """The task of every unit; ``tell`` is called with the share of it that is done.

    Returns
    -------
    The rows of a candidate, one for each fold; what the refit of a member gave, or None
    where the candidate to refit is the one that was refitted before.

    Raises
    ------
    RuntimeError
        No candidate of a member was trained on all its folds.
    """
    if isinstance(unit, CandidateUnit):
        return cross_validate_unit(data, unit, inputs, training, tell)
    best = best_candidate(unit.candidates, needed)
    if best is None:
        raise RuntimeError("none of its candidates was trained on all its folds")
    if best.number == unit.refitted:
        return None
    again = refit_unit(best, unit.refit_seed, inputs, len(data.y), training)
    return refit(data, again, inputs, training, tell)
