"""Units of a cross-validation: what one task fits, and the rows it gives."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics import get_scorer
from sklearn.metrics._scorer import _MultimetricScorer

from pipelines.validation.grids import Candidate
from pipelines.validation.splitters import Split
from pipelines.validation.substitutes import Substitute, substitute
from pipelines.validation.threads import at_most, with_jobs
from pipelines.validation.together import PLAIN, Done, Group, carry_out, group

SEARCH, INNER, OUTER, CURVE = "search", "inner", "outer", "curve"  # the stages of a run

Row = dict[str, Any]
Place = tuple[str, int, int, float]  # stage, candidate, split, share of the training rows


@dataclass(frozen=True, eq=False)
class Problem:
    """What tasks share.

    Attributes
    ----------
    X : rows of the search, array or DataFrame
    y : class codes or numbers, of shape (n_rows,)
    splits : for each stage, and share of the training rows, its splits
    scoring : names of the scorers, the first decides
    groups : tuple of Group, candidates that are fitted together
    name : str, tells this problem's rows from those of others
    device : "cpu" or "gpu", where workers compute
    intel : whether scikit-learn-intelex is wanted on a CPU
    X_test, y_test : the rows that are kept for the end
    """

    X: Any
    y: np.ndarray
    candidates: tuple[Candidate, ...]
    splits: Mapping[tuple[str, float], Sequence[Split]]
    scoring: tuple[str, ...]
    groups: tuple[Group, ...]
    name: str
    device: str = "cpu"
    intel: bool = False
    X_test: Any = None
    y_test: Any = None

    def used(self, member: int) -> Substitute:
        """What is fitted for a candidate; to be asked where it is fitted."""
        return substitute(self.candidates[member].estimator, self.device, self.intel)


@dataclass(frozen=True)
class Unit:
    """A group of candidates on a split.

    Attributes
    ----------
    share : float, of the training rows
    members : tuple of int, places of candidates
    most : see ``Group``
    label : str, the algorithm
    together : see ``Group``
    """

    stage: str
    split: int
    share: float
    members: tuple[int, ...]
    family: str
    most: tuple[int | None, ...]
    label: str
    together: bool

    @property
    def name(self) -> str:
        """As the dashboard shows it; Dask takes what stands before the dash for its group."""
        more = f"..{self.members[-1]} ({len(self.members)})" if len(self.members) > 1 else ""
        share = "" if self.share == 1.0 else f" share={self.share:g}"
        return (
            f"{self.label}-{self.stage} fold={self.split}{share} candidate={self.members[0]}{more}"
        )

    @property
    def cost(self) -> float:
        """One for each candidate: what they are like is not known before."""
        return float(len(self.members))

    @property
    def places(self) -> list[Place]:
        """What names its rows."""
        return [(self.stage, member, self.split, self.share) for member in self.members]

    def without(self, done: Collection[Place]) -> Unit | None:
        """The unit less what is done; None where nothing is left."""
        left = tuple(
            member for member, place in zip(self.members, self.places, strict=True)
            if place not in done
        )  # fmt: skip
        return replace(self, members=left) if left else None


def group_candidates(candidates: Sequence[Candidate], scoring: Sequence[str]) -> list[Group]:
    """Which candidates are fitted together; see ``together.group``."""
    return group([one.estimator for one in candidates], scorers(scoring))


def units_of(
    problem: Problem,
    stage: str,
    share: float = 1.0,
    only: Mapping[int, Collection[int]] | None = None,
) -> list[Unit]:
    """The units of a stage, split by split.

    Parameters
    ----------
    only : of a split, the candidates that are wanted; by default all of every split
    """
    units = []
    for split in range(len(problem.splits[stage, share])):
        for one in problem.groups:
            members = one.members
            if only is not None:
                members = tuple(m for m in members if m in only.get(split, ()))
            if members:
                label = problem.candidates[members[0]].algorithm
                units.append(
                    Unit(stage, split, share, members, one.family, one.most, label, one.together)
                )
    return units


def fit_unit(
    problem: Problem, unit: Unit, n_threads: int = 1, inner_jobs: str = "worker"
) -> list[Row]:
    """Fit and score the candidates of a unit; the task of a cross-validation.

    Returns
    -------
    list of dict, one for each member; the caller adds ``worker``
    """
    train, test = problem.splits[unit.stage, unit.share][unit.split]
    n_jobs = -1 if inner_jobs == "dask" else n_threads
    used = [problem.used(member) for member in unit.members]
    # What is not scikit-learn's shares nothing.
    together = unit.together and not any(one.replaced for one in used)
    with at_most(n_threads, inner_jobs), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calls = [
            {
                "estimator": with_jobs(clone(one.estimator), n_jobs),
                "X": problem.X, "y": problem.y, "train": train, "test": test, "parameters": None,
                "scorer": scorers(problem.scoring), "fit_params": None, "score_params": None,
                "return_train_score": False, "return_n_test_samples": True, "return_times": True,
                "error_score": np.nan, "verbose": 0,
            }
            for one in used
        ]  # fmt: skip
        asked = Group(unit.members, unit.family, unit.most, together)
        done = carry_out(asked, calls, (problem.name, unit.stage, unit.share, unit.split))
    return _rows(problem, unit, used, unit.family if together else PLAIN, done)


def scorers(names: Sequence[str]) -> Any:
    """A scorer of several scores."""
    return _MultimetricScorer(scorers={name: get_scorer(name) for name in names}, raise_exc=False)


def _rows(
    problem: Problem, unit: Unit, used: Sequence[Substitute], family: str, done: Done
) -> list[Row]:
    rows = []
    if done.apart:
        family = f"{PLAIN} ({done.apart})"
    for i, (place, result) in enumerate(zip(unit.places, done.results, strict=True)):
        scores = {name: finite(score) for name, score in _scores(result, problem.scoring).items()}
        status = "not converged" if done.not_converged[i] else "ok"
        if result["fit_error"]:
            status = "failed: " + result["fit_error"].strip().splitlines()[-1]
        elif scores[problem.scoring[0]] is None:
            status = f"failed: {problem.scoring[0]} gives no number"
        rows.append(
            _row(problem, place, status, scores)
            | {
                "implementation": used[i].implementation, "reason": used[i].reason,
                "family": family, "n_fits": done.n_fits[i],
                # First steps are made for the unit.
                "n_steps": 0 if i else done.n_steps, "n_steps_made": 0 if i else done.n_steps_made,
                "fit_seconds": float(result["fit_time"]),
                "score_seconds": float(result["score_time"]),
            }
        )  # fmt: skip
    return rows


def _scores(result: Mapping[str, Any], scoring: Sequence[str]) -> Mapping[str, Any]:
    found = result["test_scores"]
    return found if isinstance(found, dict) else dict.fromkeys(scoring, found)


def finite(score: Any) -> float | None:
    """A number, or None where it is none."""
    value = float(score)
    return value if math.isfinite(value) else None


def failed_rows(problem: Problem, unit: Unit, reason: str) -> list[Row]:
    """The rows of a unit whose task gave none."""
    nothing = dict.fromkeys(problem.scoring, None)
    return [
        _row(problem, place, f"failed: {reason}", nothing)
        | {
            "implementation": "", "reason": "", "family": unit.family, "n_fits": 0, "n_steps": 0,
            "n_steps_made": 0, "fit_seconds": None, "score_seconds": None,
        }
        for place in unit.places
    ]  # fmt: skip


def _row(problem: Problem, place: Place, status: str, scores: Mapping[str, float | None]) -> Row:
    stage, member, split, share = place
    train, test = problem.splits[stage, share][split]
    candidate = problem.candidates[member]
    score = None if status.startswith("failed") else scores[problem.scoring[0]]
    accuracy = scores.get("accuracy")
    return {
        "algorithm": candidate.algorithm,
        "candidate": member,
        "params": candidate.text,
        "stage": stage,
        "split": split,
        "fold": split if stage == SEARCH else -1,
        "share": share,
        "n_train": len(train),
        "n_validation": len(test),
        "error": None if accuracy is None or score is None else 1.0 - accuracy,
        "score": score,
        **{f"score_{name}": scores[name] for name in problem.scoring[1:]},
        "status": status,
    }


@dataclass(frozen=True)
class Last:
    """The best candidate on all training rows, asked about the test rows."""

    member: int
    name: str = "refit"
    cost: float = 1.0


def fit_last(problem: Problem, unit: Last, n_threads: int = 1) -> dict[str, Any]:
    """Fit the best candidate on all rows and score it on the test rows; a task.

    Returns
    -------
    dict of ``predicted`` (array of shape (n_test,)), ``scores`` by name, and ``seconds``
    """
    import time

    started = time.perf_counter()
    with at_most(n_threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = with_jobs(clone(problem.used(unit.member).estimator), n_threads)
        estimator.fit(problem.X, problem.y)
        seconds = time.perf_counter() - started
        found = scorers(problem.scoring)(estimator, problem.X_test, problem.y_test)
        predicted = np.asarray(estimator.predict(problem.X_test))
    scores = {
        name: None if isinstance(score, str) else finite(score) for name, score in found.items()
    }
    return {"predicted": predicted, "scores": scores, "seconds": seconds}
