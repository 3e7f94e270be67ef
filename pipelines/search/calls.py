"""The fits of scikit-learn's searches: as joblib is given them, and as the engine has them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from joblib.logger import short_format_time
from sklearn.base import clone

from pipelines.data.fits import Fit
from pipelines.data.generators import state_of_generators
from pipelines.data.placement import FoldedData, to_device
from pipelines.data.scaling import Scaling
from pipelines.search.candidates import Candidate
from pipelines.search.fitting import group_candidates
from pipelines.search.scoring import CandidateScorer
from pipelines.search.shared import SharedFit
from pipelines.search.shared.base import identity
from pipelines.search.strategies.base import WHOLE
from pipelines.search.tasks import SEARCH, Place, Problem

Call = tuple[Callable[..., Any], Sequence[Any], Mapping[str, Any]]
MOST_DENSE = 2**29  # bytes of a sparse matrix as an array; a larger one shares nothing
# What all fits of a search have in common.
COMMON = ("X", "y", "scorer", "error_score", "fit_params", "score_params", "return_train_score")
# What fits that share work can say of themselves.
ANSWERS = ("return_n_test_samples", "return_times", "return_parameters")


def is_fit(call: Call) -> bool:
    """Whether a call is one of scikit-learn's ``_fit_and_score``."""
    function = getattr(call[0], "function", call[0])
    if getattr(function, "__name__", "") != "_fit_and_score":
        return False
    from pipelines.sklearn_private import fit_and_score

    return function is fit_and_score


@dataclass(frozen=True, eq=False)
class FitCalls:
    """The calls of ``_fit_and_score`` that a search makes together.

    Attributes
    ----------
    calls : as joblib is given them
    """

    calls: Sequence[Call]

    @cached_property
    def arguments(self) -> list[dict[str, Any]]:
        """The arguments of each, by name."""
        return [
            {"estimator": estimator, "X": X, "y": y, **options}
            for _, (estimator, X, y), options in self.calls
        ]

    @property
    def first(self) -> Mapping[str, Any]:
        """The arguments of the first, which most are those of all."""
        return self.arguments[0]

    @cached_property
    def cells(self) -> list[tuple[int, int]]:
        """The numbers of the candidate and the split of each call."""
        candidates, splits = dict[Hashable, int](), dict[Hashable, int]()
        return [
            (
                candidates.setdefault(_candidate_key(number, call), len(candidates)),
                splits.setdefault(_split_key(call), len(splits)),
            )
            for number, call in enumerate(self.arguments)
        ]

    @cached_property
    def numbers(self) -> dict[tuple[int, int], int]:
        """The number of the call of a candidate on a split, by their numbers."""
        return {cell: number for number, cell in enumerate(self.cells)}

    @cached_property
    def is_grid(self) -> bool:
        """Whether they are every candidate on every split of the same data, once."""
        first, cells = self.first, self.cells
        n_candidates, n_splits = (1 + max(numbers) for numbers in zip(*cells, strict=True))
        return n_candidates * n_splits == len(cells) == len(set(cells)) and all(
            call.get(name) is first.get(name) or _equal(call.get(name), first.get(name))
            for call in self.arguments[1:]
            for name in COMMON
        )

    @property
    def has_callbacks(self) -> bool:
        """Whether the search that calls has callbacks, which each fit is to call."""
        return bool(getattr(self.first.get("caller"), "_skl_callbacks", None))

    def result(self, number: int, fit: Fit) -> dict[str, Any]:
        """The result of a call from its fit, with those entries that the call asks for."""
        call, result = self.arguments[number], dict(fit.scores)
        if not call.get("return_n_test_samples"):
            result.pop("n_test_samples")
        if not call.get("return_times"):
            result.pop("fit_time"), result.pop("score_time")
        if call.get("return_parameters"):
            result["parameters"] = call["parameters"]
        return result


def _equal(value: Any, other: Any) -> bool:
    """Whether two plain values are equal."""
    plain = (str, bool, int, float, type(None))
    return isinstance(value, plain) and isinstance(other, plain) and value == other


def _candidate_key(number: int, call: Mapping[str, Any]) -> Hashable:
    """Names the candidate of a call among those of its search."""
    if call.get("candidate_progress") is not None:
        return int(call["candidate_progress"][0])
    try:
        import joblib

        return identity(call["estimator"]), joblib.hash(call["parameters"])
    except Exception:  # what cannot be compared is a candidate by itself
        return "call", number


def _split_key(call: Mapping[str, Any]) -> Hashable:
    """Names the split of a call; equal splits may come as other arrays."""
    if call.get("split_progress") is not None:
        return int(call["split_progress"][0])
    return id(call["train"]), id(call["test"])


@dataclass(frozen=True, eq=False)
class SearchData(FoldedData):
    """Rows of any form that scikit-learn takes, as an array where a kind of sharing needs one."""

    def scaled(self, device: str, rows: np.ndarray | None = None) -> Any:
        """All rows as a float64 array on a device, made once.

        Raises
        ------
        ValueError
            They have no two dimensions, or are a sparse matrix that is too large as an array.
        """

        def dense() -> Any:
            is_sparse = hasattr(self.X, "toarray")
            if is_sparse and 8 * np.prod(self.X.shape, dtype=float) > MOST_DENSE:
                raise ValueError(f"X is sparse, and as an array has over {MOST_DENSE:,} bytes")
            X = np.asarray(self.X.toarray() if is_sparse else self.X, np.float64)
            if X.ndim != 2:
                raise ValueError(f"X must have two dimensions, got {X.ndim}")
            return to_device(X, device)

        return self.placement.get((device, "dense"), dense)


def problem_of(
    calls: FitCalls, kinds: Sequence[SharedFit] = (), as_called: bool = False
) -> Problem:
    """The search that calls of ``_fit_and_score`` make together.

    Parameters
    ----------
    calls : every candidate on every split
    kinds : ways of sharing that go before the usual ones
    as_called : whether fits meet the global generators of random numbers as the calls would
    """
    first = calls.first
    scorer = CandidateScorer(
        (),
        first["scorer"],
        error_score=first.get("error_score", np.nan),
        train_scores=first.get("return_train_score", False),
        fit_params=first["fit_params"],
        score_params=first["score_params"],
    )
    candidates, splits = dict[int, Candidate](), dict[int, tuple[np.ndarray, np.ndarray]]()
    for (candidate, split), call in zip(calls.cells, calls.arguments, strict=True):
        if candidate not in candidates:
            parameters = call["parameters"] or {}
            estimator = clone(call["estimator"]).set_params(**clone(parameters, safe=False))
            candidates[candidate] = Candidate("search", parameters, estimator)
        if split not in splits:
            splits[split] = _numbers(call["train"]), _numbers(call["test"])
    devices = [kind.device for kind in kinds if hasattr(kind, "device")]
    place = partial(SearchData.scaled, device=devices[0]) if devices else None
    nothing: Any = None  # a search tests no rows at its end
    data = SearchData(first["X"], first["y"], nothing, nothing, (), Scaling("none"), place=place)
    estimators = [candidate.estimator for candidate in candidates.values()]
    return Problem(
        data,
        tuple(candidates.values()),
        {(SEARCH, WHOLE): list(splits.values())},
        scorer,
        tuple(group_candidates(estimators, scorer, kinds=kinds)),
        # As their draws would have done, those of this search depend on the state that it meets.
        seed=None if as_called else state_of_generators(),
    )


def _numbers(rows: Any) -> np.ndarray:
    """The numbers of rows, which may be a mask."""
    rows = np.asarray(rows)
    return np.flatnonzero(rows) if rows.dtype == np.bool_ else rows


def results_of(
    problem: Problem, fits: Mapping[Place, Fit], share: float = WHOLE
) -> list[dict[str, Any]]:
    """The results of all fits of a search in scikit-learn's form, those of a candidate together.

    One that was not made has NaN for its scores and its times.

    Parameters
    ----------
    fits : by their places
    share : of the rows, by which fits are taken
    """
    results = list[dict[str, Any]]()
    scored = [fit.scores for fit in fits.values()]
    # Of scorers that are a function, only a fit that did not fail has the names.
    scored.sort(key=lambda scores: scores["fit_error"] is not None)
    for candidate in range(len(problem.candidates)):
        for split, (_, test) in enumerate(problem.splits[SEARCH, share]):
            fit = fits.get((SEARCH, candidate, split, share))
            results.append(not_made(scored[0], len(test)) if fit is None else fit.scores)
    return results


def not_made(like: Mapping[str, Any], n_rows: int) -> dict[str, Any]:
    """The result of a fit that was not made, in the form of one that was.

    Where even that has failed, all did: then scikit-learn raises an error.
    """
    nan = float("nan")
    result = dict(like) | {"fit_time": nan, "score_time": nan}
    for name in ("test_scores", "train_scores"):
        if name in like:
            several = isinstance(like[name], dict)
            result[name] = dict.fromkeys(like[name], nan) if several else nan
    return result | {"n_test_samples": n_rows}


def print_fit(call: Mapping[str, Any], scores: Mapping[str, Any]) -> None:
    """Print what scikit-learn prints of a fit with its ``verbose``.

    Parameters
    ----------
    call : its arguments, by name
    scores : its result, with its times
    """
    verbose, place = call["verbose"], ""
    if verbose < 2:
        return
    if verbose > 2 and call.get("split_progress") is not None:
        split, n_splits = call["split_progress"]
        place = f" {split + 1}/{n_splits}"
    if verbose > 9 and call.get("candidate_progress"):
        candidate, n_candidates = call["candidate_progress"]
        place += f"; {candidate + 1}/{n_candidates}"
    parameters = call["parameters"]
    text = ", ".join(f"{name}={parameters[name]}" for name in sorted(parameters or ()))
    if verbose > 9:
        start = f"[CV{place}] START {text}"
        print(start + "." * (80 - len(start)))
    text += ";" if text else ""
    if verbose > 2:
        test, train = scores["test_scores"], scores.get("train_scores")
        if isinstance(test, dict):
            for name in sorted(test):
                of_train = "" if train is None else f"train={train[name]:.3f}, "
                text += f" {name}: ({of_train}test={test[name]:.3f})"
        elif train is not None:
            text += f", score=(train={train:.3f}, test={test:.3f})"
        else:
            text += f", score={test:.3f}"
    seconds = scores["fit_time"] + scores["score_time"]
    text += f" total time={short_format_time(seconds)}"
    end = f"[CV{place}] END "
    print(end + "." * (80 - len(end) - len(text)) + text)
