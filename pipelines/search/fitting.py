"""The engine: the candidates of a group, fitted and scored on the splits of a task.

What candidates share is done once, see ``search/shared``; a candidate that shares nothing goes
through scikit-learn's own ``_fit_and_score``, and every result has the form of that function's.
"""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pipelines.data.dataset import rows_of
from pipelines.data.placement import FoldedData, cached
from pipelines.search.candidate_scorer import CandidateScorer
from pipelines.search.shared import PlainFits, SharedFit, shared_fit_of
from pipelines.search.shared.base import Response, Split
from pipelines.search.shared.pipeline_steps import Rows, Step, decompose, prepare

PLAIN = PlainFits.name


@dataclass(frozen=True)
class Group:
    """Candidates that share work.

    Attributes
    ----------
    members : tuple of int, places of candidates
    shared : what their last steps share; None where scikit-learn's own function fits each
    most : for each first step the most components that any candidate asks of it, or None
    """

    members: tuple[int, ...]
    shared: SharedFit | None = None
    most: tuple[int | None, ...] = ()

    @property
    def name(self) -> str:
        """The name of the shared work, for rows and pages."""
        return self.shared.name if self.shared else PLAIN


@dataclass(eq=False)
class CellResult:
    """The result of one candidate on one split.

    Attributes
    ----------
    scores : dict with the keys of ``_fit_and_score``: ``test_scores``, ``train_scores`` if asked
        for, ``fit_time``, ``score_time``, ``n_test_samples``, ``fit_error``
    n_fits : 1 where a fit was made for it, 0 where another's served
    n_steps, n_steps_made : first steps asked for, and fitted, for all of its task on the split
    apart : why candidates that share work were fitted each by itself, or nothing
    """

    scores: dict[str, Any]
    converged: bool = True
    n_errors: int | None = None
    n_support: int | None = None
    n_iterations: int | None = None
    n_fits: int = 1
    n_steps: int = 0
    n_steps_made: int = 0
    apart: str = ""


OnResult = Callable[[int, int, CellResult], None]  # split and candidate, by their places


def group_candidates(
    estimators: Sequence[Any],
    scorer: CandidateScorer,
    *,
    kinds: Sequence[SharedFit] = (),
) -> list[Group]:
    """Group the candidates that are fitted together.

    Parameters
    ----------
    estimators : unfitted, with their parameters; None for one that has to be by itself
    kinds : ways of sharing that go before those of ``SHARED_FITS``
    """
    apart, together = [], dict[Hashable, list[int]]()
    found: dict[int, tuple[list[Step], SharedFit | None]] = {}
    for i, estimator in enumerate(estimators):
        parts = _parts_of(estimator, scorer, kinds)
        if parts is None:
            apart.append(Group((i,)))
            continue
        steps, shared, key = parts
        found[i] = steps, shared
        widths = tuple((step.key, step.width) for step in steps)
        # What shares its first steps alone is a task of its own, which finds them done.
        together.setdefault((widths, key if shared else i), []).append(i)
    most = _widest(found)
    groups = [
        Group(
            tuple(members),
            found[members[0]][1] or PlainFits(),
            tuple(most[i] for i in _places(found[members[0]][0])),
        )
        for members in together.values()
    ]
    return sorted(apart + groups, key=lambda one: one.members)


def _parts_of(
    estimator: Any, scorer: CandidateScorer, kinds: Sequence[SharedFit]
) -> tuple[list[Step], SharedFit | None, Hashable] | None:
    """Return first steps, how the last shares, and its key; None if there is nothing to share."""
    if estimator is None or getattr(estimator, "_skl_callbacks", None):
        return None
    try:
        parts = decompose(estimator)
        if parts is None or (parts[0] and scorer.fit_params):
            return None
        steps, final = parts
        shared = shared_fit_of(final, kinds)
        if shared is not None and (
            (scorer.fit_params and not shared.takes_weights)
            or (shared.predictions_only and not scorer.needs_predictions_only)
        ):
            shared = None
        key = None if shared is None else shared.group_key(final)
    except Exception:  # a parameter of a type, or a value, that has no identity: say so in its fit
        return None
    if key is None:
        return (steps, None, None) if steps else None
    return steps, shared, key


def _places(steps: Sequence[Step]) -> Iterable[Hashable]:
    """Return a key for each pipeline step: the step, and all steps before it."""
    before: Hashable = ()
    for step in steps:
        yield (before, step.key)
        before = (before, step.key, step.width)


def _widest(
    found: Mapping[int, tuple[list[Step], SharedFit | None]],
) -> dict[Hashable, int | None]:
    most: dict[Hashable, int | None] = {}
    for steps, _ in found.values():
        for place, step in zip(_places(steps), steps, strict=True):
            widths = [one for one in (most.get(place), step.width) if one is not None]
            most[place] = max(widths, default=None)
    return most


def ignore_result(split: int, candidate: int, result: CellResult) -> None:
    """Do nothing: the default ``on_result``."""


def ignore_progress(fraction: float) -> None:
    """Do nothing: the default ``report``."""


def fit_group(
    group: Group,
    estimators: Sequence[Any],
    data: FoldedData,
    splits: Sequence[Split],
    scorer: CandidateScorer,
    *,
    only: Sequence[int] | None = None,
    name: Hashable = "",
    n_threads: int | None = None,
    on_result: OnResult = ignore_result,
    report: Callable[[float], None] = ignore_progress,
    fit_alone: Callable[[int, int], dict[str, Any]] | None = None,
) -> list[list[CellResult]]:
    """Fit and score the candidates of a group on every split of a task.

    Parameters
    ----------
    estimators : for each member of the group, unfitted, with its parameters; they are used up
    data : its ``scaling`` is a first step that all candidates have
    splits : all there are: what they share does not depend on which of them a task has
    only : numbers of the splits of the task, by default all
    name : tells these splits from others of the same data
    on_result : called as soon as a candidate is done on a split
    report : called with the fraction of the task that is done
    fit_alone : function of a split and a candidate, by their places: what ``_fit_and_score``
        gives for one that shares nothing, by default of the arguments here

    Returns
    -------
    list of lists : for each split and each candidate
    """
    only = range(len(splits)) if only is None else only
    found: list[list[CellResult | None]] = [[None] * len(estimators) for _ in only]

    def keep(split: int, candidate: int, result: CellResult) -> None:
        found[split][candidate] = result
        on_result(split, candidate, result)

    apart = ""
    if group.shared is not None:
        try:
            whole = WholeRows(data, name, splits, only, scorer, n_threads, estimators[0])
            _fit_together(group, estimators, whole, keep, report)
        except Exception as error:  # each by itself, and each with its own error
            if not hasattr(estimators[0], "fit"):
                raise
            apart = f"{type(error).__name__}: {error}"
    for at, number in enumerate(only):
        for i, estimator in enumerate(estimators):
            if found[at][i] is None:
                fit = partial(fit_alone, at, i) if fit_alone else None
                keep(at, i, _fit_alone(estimator, data, splits[number], scorer, apart, fit))
        if group.shared is None:
            report((at + 1) / len(only))
    return found  # type: ignore[return-value]


def _fit_alone(
    estimator: Any, data: FoldedData, split: Split, scorer: CandidateScorer, apart: str,
    fit: Callable[[], dict[str, Any]] | None,
) -> CellResult:  # fmt: skip
    from sklearn.base import clone
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.model_selection._validation import _fit_and_score
    from sklearn.pipeline import Pipeline

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = fit() if fit else _fit_and_score(
            clone(estimator), data.X, data.y, scorer=scorer.scorer, train=split[0],
            test=split[1], verbose=0, parameters=None, fit_params=scorer.fit_params,
            score_params=scorer.score_params, return_train_score=scorer.train_scores,
            return_n_test_samples=True, return_times=True, error_score=scorer.error_score,
        )  # fmt: skip
    for one in caught:
        warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    converged = not any(issubclass(one.category, ConvergenceWarning) for one in caught)
    n_steps = len(estimator.steps) - 1 if isinstance(estimator, Pipeline) else 0
    return CellResult(result, converged, n_steps=n_steps, n_steps_made=n_steps, apart=apart)


def _fit_together(
    group: Group,
    estimators: Sequence[Any],
    whole: WholeRows,
    keep: OnResult,
    report: Callable[[float], None],
) -> None:
    shared, scorer = group.shared, whole.scorer
    assert shared is not None
    n = whole.n_splits
    together = not group.most and not whole.data.scaling.learns
    for at in [range(n)] if together else [range(i, i + 1) for i in range(n)]:
        mine = estimators if len(at) == n else _clones(estimators)
        parts = [decompose(estimator) for estimator in mine]
        finals = [part[1] for part in parts if part is not None]
        steps: list[tuple[str, Any]] = []
        rows: WholeRows | PreparedRows = whole if together else whole.alone(at[0])
        n_made, step_seconds = 0, 0.0
        if group.most:
            started = time.perf_counter()
            first = parts[0]
            assert first is not None
            asked = [
                dataclasses.replace(step, most=most)
                for step, most in zip(first[0], group.most, strict=True)
            ]
            X, y = rows.train(0)
            key = whole.data.token, whole.name, whole.numbers[at[0]]
            steps, made, n_made = prepare(asked, Rows(X, rows.asked(0)), y, key)
            rows = PreparedRows(whole.alone(at[0]), made)
            step_seconds = (time.perf_counter() - started) / len(mine)

        def respond(
            response: Response, at: Sequence[int] = at, rows: WholeRows | PreparedRows = rows,
            mine: Sequence[Any] = mine, steps: Sequence[tuple[str, Any]] = steps,
            n_made: int = n_made, seconds: float = step_seconds,
        ) -> None:  # fmt: skip
            estimator = mine[response.candidate]
            if response.estimator is not None:
                estimator = _fitted_whole(estimator, steps, response.estimator)
            result = _score(response, estimator, rows, scorer)
            result.scores["fit_time"] += seconds
            if response.candidate == 0:
                result.n_steps, result.n_steps_made = len(group.most) * len(mine), n_made
            keep(at[response.split], response.candidate, result)

        def reported(fraction: float, at: Sequence[int] = at) -> None:
            report((at[0] + fraction * len(at)) / n)

        shared.fit_and_respond(rows, finals, scorer.methods, respond, reported)


def _clones(estimators: Sequence[Any]) -> list[Any]:
    if not hasattr(estimators[0], "get_params"):
        return list(estimators)
    from sklearn.base import clone

    return [clone(one) for one in estimators]


class WholeRows:
    """The rows of some splits as the data have them; see ``SplitRows``.

    Parameters
    ----------
    splits : all there are
    numbers : which of them these are the rows of
    estimator : one of the candidates, as scikit-learn asks it whether rows are a kernel
    """

    def __init__(
        self, data: FoldedData, name: Hashable, splits: Sequence[Split], numbers: Sequence[int],
        scorer: CandidateScorer, n_threads: int | None, estimator: Any,
    ) -> None:  # fmt: skip
        self.data, self.name, self.splits, self.numbers = data, name, splits, numbers
        self.scorer, self.n_threads, self._estimator = scorer, n_threads, estimator
        self.n_splits = len(numbers)
        self._found: dict[tuple[int, str], tuple[Any, Any]] = {}

    def alone(self, split: int) -> WholeRows:
        """Return the rows of one split that shares no array with others."""
        number = self.numbers[split]
        return WholeRows(
            self.data, (self.name, number), [self.splits[number]], [0], self.scorer,
            self.n_threads, self._estimator,
        )  # fmt: skip

    def part_of(self, split: int, name: str) -> tuple[Any, Any]:
        """Return rows and targets of ``"train"`` or ``"test"``."""
        key = split, name
        if key not in self._found:
            X, y = self.data.X, self.data.y
            train, test = self.splits[self.numbers[split]]
            if not hasattr(self._estimator, "fit"):
                some = test if name == "test" else train
                self._found[key] = rows_of(X, some), y[some]
            else:
                from sklearn.utils.metaestimators import _safe_split

                own = (train,) if name == "train" else (test, train)
                self._found[key] = _safe_split(self._estimator, X, y, *own)
        return self._found[key]

    def n_rows(self, split: int, name: str) -> int:
        """Return the number of rows of a part of a split."""
        return len(self.splits[self.numbers[split]][name == "test"])

    def score_params(self, split: int, name: str) -> Mapping[str, Any]:
        """Return the metadata that scorers of a part are given, such as sample weights."""
        if not self.scorer.score_params:
            return {}
        from sklearn.utils.validation import _check_method_params

        rows = self.splits[self.numbers[split]][name == "test"]
        return _check_method_params(self.data.X, params=self.scorer.score_params, indices=rows)

    def train(self, split: int) -> tuple[Any, Any]:
        """See ``SplitRows.train``."""
        return self.part_of(split, "train")

    def asked(self, split: int) -> Mapping[str, Any]:
        """See ``SplitRows.asked``."""
        return {name: self.part_of(split, name)[0] for name in self.scorer.parts}

    def matrix(self, device: str) -> tuple[Any, np.ndarray, list[Split]]:
        """See ``SplitRows.matrix``."""
        # Where the scaling learns these are the rows of one split.
        learned_on = self.splits[0][0] if self.data.scaling.learns else None
        splits = list(self.splits)
        if self.scorer.train_scores:
            # Made once for all tasks, which know splits by their arrays.
            splits = [
                cached((self.data.token, f"asked {self.name} {i}"), partial(_with_train, split))
                for i, split in enumerate(self.splits)
            ]
        return self.data.scaled(device, rows=learned_on), np.asarray(self.data.y), splits

    def part(self, split: int, name: str) -> slice:
        """See ``SplitRows.part``."""
        n_test = self.n_rows(split, "test")
        return slice(0, n_test) if name == "test" else slice(n_test, None)

    def weights(self, split: int | None) -> np.ndarray | None:
        """See ``SplitRows.weights``."""
        if not self.scorer.fit_params:
            return None
        from sklearn.utils.validation import _check_method_params

        rows = None if split is None else self.splits[self.numbers[split]][0]
        found = _check_method_params(self.data.X, params=self.scorer.fit_params, indices=rows)
        weights = found.get("sample_weight")
        return None if weights is None else np.asarray(weights, np.float64)


def _with_train(split: Split) -> Split:
    """Return a split that asks about its training rows as well."""
    train, test = split
    return train, np.concatenate([test, train])


class PreparedRows:
    """The rows of one split after the first steps of pipelines; see ``SplitRows``."""

    n_splits, numbers = 1, (0,)

    def __init__(self, whole: WholeRows, made: Rows) -> None:
        self._whole, self._made = whole, made
        self.n_threads = whole.n_threads

        # Scores are of the rows as they were before the first step.
        self.part_of, self.n_rows = whole.part_of, whole.n_rows
        self.score_params, self.part = whole.score_params, whole.part

    def train(self, split: int) -> tuple[Any, Any]:
        """See ``SplitRows.train``."""
        return self._made.fit, self._whole.train(0)[1]

    def asked(self, split: int) -> Mapping[str, Any]:
        """See ``SplitRows.asked``."""
        return self._made.asked

    def matrix(self, device: str) -> tuple[Any, np.ndarray, list[Split]]:
        """See ``SplitRows.matrix``; made once for all tasks after the same steps."""
        return self._made.matrix(device, *(self._whole.part_of(0, n)[1] for n in ("train", "test")))

    def weights(self, split: int | None) -> np.ndarray | None:
        """See ``SplitRows.weights``; pipelines share nothing where there are any."""
        return None


def _fitted_whole(estimator: Any, steps: Sequence[tuple[str, Any]], final: Any) -> Any:
    """Return the fitted pipeline; of what is none, its last step."""
    if not steps:
        return final
    done = dict(steps)
    estimator.steps = [(name, done.get(name, one)) for name, one in estimator.steps[:-1]] + [
        (estimator.steps[-1][0], final)
    ]
    return estimator


def _score(
    response: Response, estimator: Any, rows: WholeRows | PreparedRows, scorer: CandidateScorer
) -> CellResult:
    """Score a response as scikit-learn's ``_fit_and_score`` does."""
    split = response.split
    n_test = rows.n_rows(split, "test")
    if response.error is not None:
        return CellResult(scorer.failed(response.error, n_test), n_fits=response.n_fits)
    result: dict[str, Any] = {
        "fit_error": None, "n_test_samples": n_test, "fit_time": response.fit_seconds,
    }  # fmt: skip
    n_errors = None
    for part in scorer.parts:
        started = time.perf_counter()
        X, truth = rows.part_of(split, part)
        params = rows.score_params(split, part)
        result[f"{part}_scores"] = scorer.score(response, estimator, X, truth, part, params)
        if part == "test":
            if response.classes is not None:
                wrong = response.predict("predict", part) != np.asarray(truth)
                n_errors = int(np.count_nonzero(wrong))
            result["score_time"] = response.score_seconds + time.perf_counter() - started
    return CellResult(
        result, response.converged, n_errors, response.n_support, response.n_iterations,
        response.n_fits,
    )  # fmt: skip
