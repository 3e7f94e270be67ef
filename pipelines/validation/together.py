"""Candidates on a fold, fitted together where they share work, else each by itself.

A candidate is told as scikit-learn's own ``_fit_and_score`` is told it, and the answer has
its form; what shares nothing goes through that function.
"""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics._scorer import _BaseScorer, _MultimetricScorer, _PassthroughScorer
from sklearn.model_selection._validation import _fit_and_score, _score
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import _check_method_params, _num_samples

from pipelines.validation.families import Family, family_of
from pipelines.validation.steps import Rows, Step, decompose, prepare

PLAIN = "plain"  # the family of what shares nothing
METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function")


@dataclass(frozen=True)
class Group:
    """Candidates that one task fits.

    Attributes
    ----------
    members : tuple of int, places of candidates
    family : str, what their last steps share; ``"plain"`` where they share nothing
    most : for each first step the most components that any candidate asks of it, or None
    together : bool, whether scikit-learn's own function is left
    """

    members: tuple[int, ...]
    family: str = PLAIN
    most: tuple[int | None, ...] = ()
    together: bool = False


@dataclass(frozen=True)
class Done:
    """What became of a group.

    Attributes
    ----------
    results : list of dict, as ``_fit_and_score`` gives them
    n_fits : list of int, for each candidate whether a fit was made for it
    n_steps, n_steps_made : int, first steps asked for, and fitted
    apart : str, why candidates that share work were fitted each by itself, or nothing
    """

    results: list[dict[str, Any]]
    n_fits: list[int]
    n_steps: int
    n_steps_made: int
    not_converged: list[bool]
    apart: str = ""


def group(
    estimators: Sequence[Any], scorer: Any, *, weights: bool = False, train_scores: bool = False
) -> list[Group]:
    """Which candidates are fitted together.

    Parameters
    ----------
    estimators : unfitted, with their parameters; None for one that has to be by itself
    scorer : what scikit-learn scores them with
    weights : whether rows have weights
    train_scores : whether the training rows are scored, too
    """
    known = understood(scorer)
    apart, together = [], dict[Hashable, list[int]]()
    found: dict[int, tuple[list[Step], Family | None]] = {}
    for i, estimator in enumerate(estimators):
        parts = _parts_of(estimator, known, weights, train_scores)
        if parts is None:
            apart.append(Group((i,)))
            continue
        steps, family, key = parts
        found[i] = steps, family
        widths = tuple((step.key, step.width) for step in steps)
        # What shares its first steps alone is a task of its own, which finds them done.
        together.setdefault((widths, key if family else i), []).append(i)
    most = _widest(found)
    shared = [
        Group(
            tuple(members),
            family.name if (family := found[members[0]][1]) else PLAIN,
            tuple(most[i] for i in _places(found[members[0]][0])),
            together=True,
        )
        for members in together.values()
    ]
    return sorted(apart + shared, key=lambda one: one.members)


def understood(scorer: Any) -> bool:
    """Whether a scorer asks for answers alone, and does not look at the estimator."""
    if isinstance(scorer, _MultimetricScorer):
        return all(understood(one) for one in scorer._scorers.values())
    return isinstance(scorer, _BaseScorer | _PassthroughScorer)


def _parts_of(
    estimator: Any, known: bool, weights: bool, train_scores: bool
) -> tuple[list[Step], Family | None, Hashable] | None:
    """First steps, family and key; None for an estimator that has nothing to share."""
    if estimator is None or getattr(estimator, "_skl_callbacks", None):
        return None
    try:
        parts = decompose(estimator)
        if parts is None or (parts[0] and weights):
            return None
        steps, final = parts
        family = family_of(final)
        if family is not None and (
            (weights and not family.takes_weights)
            or (family.answers_only and (train_scores or not known))
        ):
            family = None
        key = None if family is None else family.key(final)
    except Exception:  # a parameter of a type, or a value, that has no identity: say so in its fit
        return None
    if key is None:
        return (steps, None, None) if steps else None
    return steps, family, key


def _places(steps: Sequence[Step]) -> Iterable[Hashable]:
    """What tells a step from others: itself, and what comes before it."""
    before: Hashable = ()
    for step in steps:
        yield (before, step.key)
        before = (before, step.key, step.width)


def _widest(found: Mapping[int, tuple[list[Step], Family | None]]) -> dict[Hashable, int | None]:
    most: dict[Hashable, int | None] = {}
    for steps, _ in found.values():
        for place, step in zip(_places(steps), steps, strict=True):
            widths = [one for one in (most.get(place), step.width) if one is not None]
            most[place] = max(widths, default=None)
    return most


def carry_out(group: Group, calls: Sequence[Mapping[str, Any]], place: Hashable) -> Done:
    """Fit and score the candidates of a group on a fold.

    Parameters
    ----------
    calls : for each member the arguments of ``_fit_and_score``
    place : names the training rows: equal ones share what first steps made of them
    """
    apart = ""
    if group.together:
        try:
            return _together(group, calls, place)
        except Exception as error:  # each by itself, and each with its own error
            apart = f"{type(error).__name__}: {error}"
    results, limits = [], []
    for call in calls:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            results.append(_fit_and_score(**call))
        limits.append(any(issubclass(one.category, ConvergenceWarning) for one in heard))
        _say_again(heard)
    n_steps = sum(_n_steps(call) for call in calls)
    return Done(results, [1] * len(calls), n_steps, n_steps, limits, apart)


def _say_again(heard: Iterable[Any]) -> None:
    for one in heard:
        warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)


def _n_steps(call: Mapping[str, Any]) -> int:
    estimator = call["estimator"]
    return len(estimator.steps) - 1 if isinstance(estimator, Pipeline) else 0


def _together(group: Group, calls: Sequence[Mapping[str, Any]], place: Hashable) -> Done:
    call, X, y = calls[0], calls[0]["X"], calls[0]["y"]
    estimators = [
        clone(one["estimator"]).set_params(**clone(one["parameters"] or {}, safe=False))
        for one in calls
    ]
    parts = [decompose(estimator) for estimator in estimators]
    assert all(parts)
    steps = [
        dataclasses.replace(step, most=most)
        for step, most in zip(parts[0][0], group.most, strict=True)  # type: ignore[index]
    ]
    finals = [part[1] for part in parts]  # type: ignore[index]
    train, test = call["train"], call["test"]
    X_train, y_train = _safe_split(estimators[0], X, y, train)
    X_test, y_test = _safe_split(estimators[0], X, y, test, train)
    asked = {"test": X_test} | ({"train": X_train} if call["return_train_score"] else {})
    weights = _check_method_params(X, params=call["fit_params"] or {}, indices=train)

    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        fitted_steps, rows, n_made = prepare(steps, Rows(X_train, asked), y_train, place)
        family = family_of(finals[0]) if group.family != PLAIN else None
        if family is not None:
            fitted = family.fit(finals, rows.fit, y_train, rows.asked["test"], **weights)
        else:
            fitted = [final.fit(rows.fit, y_train, **weights) for final in finals]
    _say_again(heard)
    fit_seconds = (time.perf_counter() - started) / len(calls)
    warned = any(issubclass(one.category, ConvergenceWarning) for one in heard)

    board = Board(family, fitted, rows.asked)
    results = []
    for i, one in enumerate(calls):
        whole = _whole(estimators[i], fitted_steps, fitted[i])
        seen: Any = whole
        if understood(call["scorer"]):
            seen = Answered(whole, fitted[i], asked, partial(board.ask, i))
        scored = time.perf_counter()
        result: dict[str, Any] = {"fit_error": None}
        for name, (some, truth, chosen) in {
            "test": (X_test, y_test, test), "train": (X_train, y_train, train)
        }.items():  # fmt: skip
            if name in asked:
                about = _check_method_params(X, params=one["score_params"] or {}, indices=chosen)
                result[f"{name}_scores"] = _score(
                    seen, some, truth, one["scorer"], about, one["error_score"]
                )
            if name == "test":
                result["score_time"] = time.perf_counter() - scored
        result |= {"n_test_samples": _num_samples(X_test), "fit_time": fit_seconds}
        results.append(result)
    made = 1 if family is not None and family.one_fit else len(calls)
    return Done(
        results, [1] * made + [0] * (len(calls) - made), len(steps) * len(calls), n_made,
        [_at_limit(one, warned, len(calls)) for one in fitted],
    )  # fmt: skip


def _at_limit(fitted: Any, warned: bool, n: int) -> bool:
    """Whether a fit of a group, one of which warned, ended at its limit of iterations."""
    if hasattr(fitted, "not_converged"):
        return bool(fitted.not_converged)
    if not warned or n == 1:
        return warned
    limit, taken = getattr(fitted, "max_iter", None), getattr(fitted, "n_iter_", None)
    return limit is None or taken is None or bool(np.max(taken) >= limit)


def _whole(estimator: Any, steps: Sequence[tuple[str, Any]], final: Any) -> Any:
    """The fitted pipeline; of what is none, its last step."""
    if not isinstance(estimator, Pipeline):
        return final
    done = dict(steps)
    estimator.steps = [(name, done.get(name, one)) for name, one in estimator.steps[:-1]] + [
        (estimator.steps[-1][0], final)
    ]
    return estimator


class Board:
    """What the fitted estimators of a group say of rows, asked together and once."""

    def __init__(
        self, family: Family | None, fitted: Sequence[Any], rows: Mapping[str, Any]
    ) -> None:
        self._family, self._fitted, self._rows = family, fitted, rows
        self._said: dict[tuple[str, str], list[np.ndarray] | None] = {}

    def ask(self, i: int, method: str, part: str) -> np.ndarray:
        """What the estimator at place ``i`` says of a part of the rows."""
        if (method, part) not in self._said:
            said = None
            if (self._family is not None and len(self._fitted) > 1) or self._tells:
                said = self._family.answers(self._fitted, method, self._rows[part])  # type: ignore[union-attr]
            self._said[method, part] = said
        said = self._said[method, part]
        if said is not None:
            return said[i]
        alone: np.ndarray = getattr(self._fitted[i], method)(self._rows[part])
        return alone

    @property
    def _tells(self) -> bool:
        return self._family is not None and self._family.answers_only


class Answered:
    """A fitted estimator whose answers on the rows of a fold are known, for a scorer."""

    def __init__(self, estimator: Any, final: Any, parts: Mapping[str, Any], ask: Any) -> None:
        self._estimator, self._final, self._ask = estimator, final, ask
        self._names = {id(rows): name for name, rows in parts.items()}

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._estimator, name)  # where a plain one has none, this has none
        if name not in METHODS:
            return found

        def answer(X: Any, **how: Any) -> Any:
            part = self._names.get(id(X))
            return found(X, **how) if part is None or how else self._ask(name, part)

        answer.__name__ = name  # scikit-learn asks how it is called
        return answer

    def score(self, X: Any, y: Any = None, **weights: Any) -> float:
        """The estimator's own score, from these answers where it is a usual one."""
        final = getattr(self._final, "estimator", self._final)
        for usual in (ClassifierMixin, RegressorMixin):
            # That of neighbours is the usual one but for rows it does not have here.
            if isinstance(final, usual) and (
                type(final).score is usual.score or family_of(final) is not None
            ):
                return float(usual.score(self, X, y, **weights))
        return float(self._estimator.score(X, y, **weights))

    def __sklearn_tags__(self) -> Any:
        return self._estimator.__sklearn_tags__()
