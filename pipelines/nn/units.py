"""Units of a bagging run: what one task trains, and the rows it gives."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipelines.data.bootstrap import Bootstrap
from pipelines.data.placement import FoldedData, kept
from pipelines.data.preparation import Preparation
from pipelines.nn.device_rows import DeviceRows, place_parts, place_rows, relative_scaling
from pipelines.nn.inputs import Inputs
from pipelines.nn.member import Member
from pipelines.nn.network import Tensors, log_certainty
from pipelines.nn.parts import OK, Part, Told, Trained
from pipelines.nn.plan import draw_member, redraw_sample
from pipelines.nn.settings import Training
from pipelines.nn.size import networks_at_once, predicted_cost, scoring_rows, training_bytes
from pipelines.nn.space import Candidate, SearchSpace
from pipelines.nn.start import generators_of
from pipelines.nn.train import train

Row = dict[str, Any]
Drawn = tuple[np.ndarray, np.ndarray]  # the rows of a sample, and those that it left out
GIB = 2**30
DATA_SHARE = 0.9  # of a GPU's free memory that is planned with; the rest is torch's own


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


@dataclass(frozen=True, eq=False)
class Refitted:
    """What a refit gives.

    Attributes
    ----------
    row : dict
        The columns of a candidate's row, ``fold`` -1; errors and loss are of the distinct
        training rows that the sample left out, a third of them.
    member : Member or None
        None where training diverged or did not fit the device.
    test_proba : float32 array of shape (n_test, n_classes), or None
    train_error : float or None
        Part of the distinct rows it was trained on that it gets wrong.
    """

    row: Row
    member: Member | None
    test_proba: np.ndarray | None
    train_error: float | None


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


def cross_validate_unit(
    data: FoldedData,
    unit: CandidateUnit,
    inputs: Inputs,
    training: Training,
    told: Told = lambda share: None,
) -> list[Row]:
    """Train and score the folds of one candidate; the task of the random search.

    Each fold's network is trained on the bootstrap's samples of the other folds, and
    scored on the rows of its own fold, each once. Where the device has no room for all
    folds at once they are trained in turns, with the same result.

    Returns
    -------
    list of dict
        One row for each fold; the caller adds ``worker``. A candidate whose loss ceases to
        be a number has the status ``diverged``, one that does not fit the device a status
        that says so; both have no error.
    """
    sample = _sample(data, unit)
    at_once = _networks_at_once(data, unit, inputs, training, unit.n_folds)
    if at_once == 0:
        reason = _does_not_fit(data, unit, inputs, training)
        return failed_rows(data, unit, reason)
    generators = generators_of(unit.seed, unit.n_folds)
    found: list[Row] = []
    for first in range(0, unit.n_folds, at_once):
        folds = range(first, min(first + at_once, unit.n_folds))
        drawn = [(sample.train(fold), sample.left_out(fold)) for fold in folds]
        stack = _place(data, drawn, [generators[fold] for fold in folds], inputs, training)

        def score(
            slot: int, weights: Tensors, first: int = first, stack: _Placed = stack
        ) -> _Score:
            validation = sample.validation(first + slot)
            return _score(stack, slot, validation, weights, unit.candidate, inputs)

        def told_of_turn(share: float, first: int = first, n: int = len(folds)) -> None:
            told((first + share * n) / unit.n_folds)

        parts = stack.parts
        trained = train(unit.candidate, inputs, stack.rows, parts, training, score, told_of_turn)
        for fold, part, one in zip(folds, parts, trained, strict=True):
            n_validation = len(sample.validation(fold))
            found.append(_row(unit, fold, len(part.rows), n_validation, one))
    return found


def refit(
    data: FoldedData,
    unit: RefitUnit,
    inputs: Inputs,
    training: Training,
    told: Told = lambda share: None,
) -> Refitted:
    """Train the candidate on the bootstrap's whole sample, and test it; the task of a refit."""
    (one,) = refit_together(data, [unit], inputs, training, told)
    return one


def refit_together(
    data: FoldedData,
    units: Sequence[RefitUnit],
    inputs: Inputs,
    training: Training,
    told: Told = lambda share: None,
) -> list[Refitted]:
    """The same of several bootstraps; all take the candidate of the first unit.

    Where the device has no room for all of them at once they are trained in turns.
    """
    candidate, n = units[0].candidate, len(units)
    at_once = _networks_at_once(data, units[0], inputs, training, n)
    if 0 < at_once < n:
        return [
            one
            for first in range(0, n, at_once)
            for one in refit_together(data, units[first : first + at_once], inputs, training)
        ]
    samples = [_sample(data, unit) for unit in units]
    drawn = [(sample.everything(), sample.left_out()) for sample in samples]
    if at_once == 0:
        reason = _does_not_fit(data, units[0], inputs, training)
        return [
            Refitted(_empty_row(unit, -1, len(own[0]), len(own[1]), reason), None, None, None)
            for unit, own in zip(units, drawn, strict=True)
        ]
    generators = [generators_of(unit.seed, 1)[0] for unit in units]
    stack = _place(data, drawn, generators, inputs, training)

    def collect(slot: int, weights: Tensors) -> tuple[_Score, _Score, dict[str, np.ndarray]]:
        def score(some: np.ndarray) -> _Score:
            return _score(stack, slot, some, weights, candidate, inputs)

        rows, left_out = drawn[slot]
        # A copy: on a CPU, numpy() is a view.
        numbers = {name: np.array(one.cpu().numpy()) for name, one in weights.items()}
        return score(left_out), score(np.unique(rows)), numbers

    trained = train(candidate, inputs, stack.rows, stack.parts, training, collect, told)
    return [
        _refitted(data, unit, inputs, training, own, one)
        for unit, own, one in zip(units, drawn, trained, strict=True)
    ]


def _refitted(
    data: FoldedData, unit: RefitUnit, inputs: Inputs, training: Training,
    drawn: Drawn, one: Trained[tuple[_Score, _Score, dict[str, np.ndarray]]],
) -> Refitted:  # fmt: skip
    of_left_out, of_drawn, weights = one.result
    rows, left_out = drawn
    row = _row(unit, -1, len(rows), len(left_out), Trained(
        of_left_out, one.losses, one.status, one.seconds))  # fmt: skip
    row["losses"] = json.dumps([round(loss, 6) for loss in one.losses if math.isfinite(loss)])
    if one.status != OK:
        return Refitted(row, None, None, None)
    member = Member(unit.candidate, inputs, weights, data.scaling_for(rows))
    proba = member.predict_proba(data.X_test, training)
    return Refitted(row, member, proba, of_drawn.n_errors / of_drawn.n_rows)


def failed_rows(data: FoldedData, unit: CandidateUnit, reason: str) -> list[Row]:
    """The rows of a unit whose task gave none."""
    sample = _sample(data, unit)
    return [
        _empty_row(unit, fold, len(sample.train(fold)), len(sample.validation(fold)), reason)
        for fold in range(unit.n_folds)
    ]


@dataclass(frozen=True)
class _Score:
    n_rows: int
    n_errors: int
    loss: float
    seconds: float


def _sample(data: FoldedData, unit: Unit) -> Bootstrap:
    key = f"bootstrap {unit.run_seed} {unit.member} {unit.n_folds}"
    return kept(
        (data.token, key),
        lambda: redraw_sample(data.y, unit.n_folds, unit.run_seed, unit.member, data.weights),
    )


@dataclass(frozen=True, eq=False)
class _Placed:
    """Rows on the device, and the parts of a stack; those of ``parts[slot]`` are row numbers there.

    Row r of the data set is row ``slot * step + r`` for it.
    """

    rows: DeviceRows
    parts: list[Part]
    step: int


def _place(
    data: FoldedData,
    drawn: Sequence[Drawn],
    generators: Sequence[np.random.Generator],
    inputs: Inputs,
    training: Training,
) -> _Placed:
    """Place what a stack is trained on: for each of its networks the rows drawn, and left out."""
    trios = [(*rows, own) for rows, own in zip(drawn, generators, strict=True)]
    weights = np.ones(len(data.y)) if data.weights is None else data.weights
    if isinstance(data.scaling, Preparation):
        n, each = len(data.y), [rows for rows, _, _ in trios]
        placed = place_parts(data, each, inputs.n_classes, training.device)
        return _Placed(placed, [
            Part(slot * n + rows, own, None, slot * n + left_out, weights[left_out])
            for slot, (rows, left_out, own) in enumerate(trios)
        ], n)  # fmt: skip
    parts = [
        Part(rows, own, relative_scaling(data, rows), left_out, weights[left_out])
        for rows, left_out, own in trios
    ]
    return _Placed(place_rows(data, inputs.n_classes, training.device), parts, 0)


def _networks_at_once(
    data: FoldedData, unit: Unit, inputs: Inputs, training: Training, n: int
) -> int:
    return networks_at_once(
        unit.candidate, inputs, n, training.batch_size, len(data.y), memory_of(training)
    )


def memory_of(training: Training) -> int | None:
    """Bytes that training may take of its device; None for no limit.

    On a GPU what is free now, and what torch keeps of it unused: another worker, a desktop
    or another library may hold the rest. The rows, which a process places once, are
    counted in ``training_bytes`` again: a few parts in a hundred on the safe side.
    """
    if training.memory_bytes is not None or training.device == "cpu":
        return training.memory_bytes
    import torch

    free, _ = torch.cuda.mem_get_info()
    unused = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
    return int(DATA_SHARE * (free + unused))


def _does_not_fit(data: FoldedData, unit: Unit, inputs: Inputs, training: Training) -> str:
    needed = training_bytes(unit.candidate, inputs, 1, training.batch_size, len(data.y))
    limit = memory_of(training) or 0
    return f"needs {needed / GIB:.1f} GiB, the device has {limit / GIB:.1f} GiB"


def _score(
    stack: _Placed, slot: int, some: np.ndarray, weights: Tensors, candidate: Candidate,
    inputs: Inputs,
) -> _Score:  # fmt: skip
    """Errors and mean cross-entropy of one network on rows of the data set."""
    import torch

    started = time.perf_counter()
    rows, part = stack.rows, stack.parts[slot]
    index = torch.from_numpy(some.astype(np.int64) + slot * stack.step).to(rows.device)
    n_errors, loss = 0, 0.0
    for block in index.split(scoring_rows(candidate, inputs)):
        X = rows.X.index_select(0, block)
        if part.scaling is not None:
            center, scale = (
                torch.from_numpy(np.asarray(one, dtype=np.float32)).to(rows.device)
                for one in (part.scaling.center, part.scaling.scale)
            )
            X = X.sub_(center).div_(scale)
        certainty = log_certainty(weights, X, candidate, inputs)
        truth = rows.one_hot.index_select(0, block)
        n_errors += int((certainty.argmax(1) != truth.argmax(1)).sum())
        loss -= float((certainty * truth).sum())
    seconds = time.perf_counter() - started
    return _Score(len(some), n_errors, loss / max(1, len(some)), seconds)


def _row(
    unit: Unit, fold: int, n_train: int, n_validation: int,
    trained: Trained[_Score],
) -> Row:  # fmt: skip
    row = _empty_row(unit, fold, n_train, n_validation, "")
    one = trained.result
    row |= {
        "n_epochs": len(trained.losses),
        "fit_seconds": trained.seconds,
        "score_seconds": one.seconds,
        "status": trained.status,
    }
    if trained.status != OK:
        return row
    error = one.n_errors / n_validation if n_validation else None
    return row | {
        "n_errors": one.n_errors,
        "error": error,
        "score": None if error is None else 1 - error,
        "loss": one.loss,
    }


def _empty_row(unit: Unit, fold: int, n_train: int, n_validation: int, reason: str) -> Row:
    return {
        "member": unit.member,
        "candidate": unit.number,
        "fold": fold,
        **unit.candidate.parameters(),
        "n_train": n_train,
        "n_validation": n_validation,
        "n_errors": None,
        "error": None,
        "score": None,
        "loss": None,
        "n_epochs": None,
        "fit_seconds": None,
        "score_seconds": None,
        "status": f"failed: {reason}",
    }
