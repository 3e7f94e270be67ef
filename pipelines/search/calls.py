"""The calls of ``_fit_and_score`` that a scikit-learn search hands to joblib."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pickle import PicklingError
from typing import Any

import joblib
from joblib.logger import short_format_time

Call = tuple[Callable[..., Any], Sequence[Any], Mapping[str, Any]]
# Arguments that are the same for all fits of a search.
COMMON_ARGUMENTS = (
    "X",
    "y",
    "scorer",
    "error_score",
    "fit_params",
    "score_params",
    "return_train_score",
)
# Errors that pickle raises for objects that it cannot serialise.
PICKLE_ERRORS = (PicklingError, AttributeError, TypeError, ValueError, RecursionError)
# Options of ``_fit_and_score`` for further entries of its result, which shared fits have, too.
RETURN_OPTIONS = ("return_n_test_samples", "return_times", "return_parameters")


def is_fit(call: Call) -> bool:
    """Whether a call is one of scikit-learn's ``_fit_and_score``."""
    function = getattr(call[0], "function", call[0])
    if getattr(function, "__name__", "") != "_fit_and_score":
        return False
    from pipelines.sklearn_private import fit_and_score

    return function is fit_and_score


@dataclass(frozen=True, eq=False)
class FitCalls:
    """The calls of ``_fit_and_score`` that a search makes together."""

    calls: Sequence[Call]

    @cached_property
    def arguments(self) -> list[dict[str, Any]]:
        """The arguments of each call, by name."""
        return [
            {"estimator": estimator, "X": X, "y": y, **options}
            for _, (estimator, X, y), options in self.calls
        ]

    @property
    def first(self) -> Mapping[str, Any]:
        """The arguments of the first call; most are the same for all calls."""
        return self.arguments[0]

    @cached_property
    def cells(self) -> list[tuple[int, int]]:
        """Candidate number and split number of each call."""
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
        """The number of each call, by its candidate number and split number."""
        return {cell: number for number, cell in enumerate(self.cells)}

    @cached_property
    def is_grid(self) -> bool:
        """Whether the calls are every candidate on every split of the same data, once each."""
        first, cells = self.first, self.cells
        n_candidates, n_splits = (1 + max(numbers) for numbers in zip(*cells, strict=True))
        return n_candidates * n_splits == len(cells) == len(set(cells)) and all(
            call.get(name) is first.get(name) or _equal(call.get(name), first.get(name))
            for call in self.arguments[1:]
            for name in COMMON_ARGUMENTS
        )

    @cached_property
    def has_searches(self) -> bool:
        """Whether the estimator is itself a search, or contains one."""
        first = self.first
        values = [first["estimator"], *(first["parameters"] or {}).values()]
        parts = [
            part
            for value in values
            if hasattr(value, "get_params") and not isinstance(value, type)
            for part in (value, *value.get_params(deep=True).values())
        ]
        return any(hasattr(part, "_run_search") for part in parts)

    @property
    def has_callbacks(self) -> bool:
        """Whether the search has scikit-learn callbacks, which each of its fits has to call."""
        return bool(getattr(self.first.get("caller"), "_skl_callbacks", None))

    def result(self, number: int, scores: Mapping[str, Any]) -> dict[str, Any]:
        """The result of a call: the scores of its fit, and the entries that the call asks for."""
        call, result = self.arguments[number], dict(scores)
        if not call.get("return_n_test_samples"):
            result.pop("n_test_samples")
        if not call.get("return_times"):
            result.pop("fit_time"), result.pop("score_time")
        if call.get("return_parameters"):
            result["parameters"] = call["parameters"]
        return result


def _equal(value: Any, other: Any) -> bool:
    """Whether two plain values are equal."""
    plain_types = (str, bool, int, float, type(None))
    return isinstance(value, plain_types) and isinstance(other, plain_types) and value == other


def _candidate_key(number: int, call: Mapping[str, Any]) -> Hashable:
    """A key that is equal for calls of the same candidate of a search."""
    if call.get("candidate_progress") is not None:
        return int(call["candidate_progress"][0])
    estimator = call["estimator"]
    try:
        parameters = estimator.get_params(deep=False), call["parameters"]
        return type(estimator), joblib.hash(parameters)
    except PICKLE_ERRORS:  # each call is then its own candidate, so that ``is_grid`` is false
        return "call", number


def _split_key(call: Mapping[str, Any]) -> Hashable:
    """A key that is equal for calls on the same split.

    Uses scikit-learn's own number of the split where the call has one, else the identity of the
    row arrays: equal splits may then count as two.
    """
    if call.get("split_progress") is not None:
        return int(call["split_progress"][0])
    return id(call["train"]), id(call["test"])


def print_fit(call: Mapping[str, Any], scores: Mapping[str, Any]) -> None:
    """Print the lines that scikit-learn prints for a fit at the call's ``verbose`` level."""
    verbose, position = call["verbose"], ""
    if verbose < 2:
        return
    if verbose > 2 and call.get("split_progress") is not None:
        split, n_splits = call["split_progress"]
        position = f" {split + 1}/{n_splits}"
    if verbose > 9 and call.get("candidate_progress"):
        candidate, n_candidates = call["candidate_progress"]
        position += f"; {candidate + 1}/{n_candidates}"
    parameters = call["parameters"]
    text = ", ".join(f"{name}={parameters[name]}" for name in sorted(parameters or ()))
    if verbose > 9:
        start = f"[CV{position}] START {text}"
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
    end = f"[CV{position}] END "
    print(end + "." * (80 - len(end) - len(text)) + text)
