"""The engine: the candidates of a group, fitted and scored on the splits of a task.

What candidates share is done once, see ``search/shared``; a candidate that shares nothing goes
through scikit-learn's own ``_fit_and_score``, and every result has the form of that function's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pipelines.data.placement import FoldedData
from pipelines.search.scoring import PREDICTIONS, CandidateScorer
from pipelines.search.shared import PlainFits, SharedFit, shared_fit_of
from pipelines.search.shared.base import (
    WEIGHTS,
    Response,
    Rows,
    Split,
    SplitRows,
    convergence_noted,
)
from pipelines.search.shared.pipeline_steps import Step, decompose, prepare

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
    implementation, reason : what was fitted, and why that; see ``Substitute``
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
    implementation: str = ""
    reason: str = ""


OnResult = Callable[[int, int, CellResult], None]  # split and candidate, by their places
SILENT: Mapping[str, Any] = {"verbose": 0, "parameters": None}
FitOptions = Callable[[int, int], Mapping[str, Any]]


def ignore(*_: Any) -> None:
    """Do nothing: the default of what is called with results and progress."""


def group_candidates(
    estimators: Sequence[Any],
    scorer: CandidateScorer,
    *,
    kinds: Sequence[SharedFit] = (),
) -> list[Group]:
    """Group the candidates that are fitted together.

    Parameters
    ----------
    estimators : unfitted, with their parameters
    kinds : ways of sharing that go before those of ``search/shared``
    """

    def places(steps: Sequence[Step]) -> Iterator[Hashable]:
        """Give a key for each pipeline step: the step, and all steps before it."""
        before: Hashable = ()
        for step in steps:
            yield (before, step.key)
            before = (before, step.key, step.width)

    apart, together = list[Group](), dict[Hashable, list[int]]()
    found: dict[int, tuple[list[Step], SharedFit | None]] = {}
    most: dict[Hashable, int | None] = {}
    for i, estimator in enumerate(estimators):
        parts = _parts_of(estimator, scorer, kinds)
        if parts is None:
            apart.append(Group((i,)))
            continue
        steps, shared, key = parts
        found[i] = steps, shared
        for place, step in zip(places(steps), steps, strict=True):
            widths = [one for one in (most.get(place), step.width) if one is not None]
            most[place] = max(widths, default=None)
        # What shares its first steps alone is a task of its own, which finds them done.
        of_steps = tuple((step.key, step.width) for step in steps)
        together.setdefault((of_steps, key if shared else i), []).append(i)
    groups = []
    for members in together.values():
        steps, shared = found[members[0]]
        widest = tuple(most[place] for place in places(steps))
        groups.append(Group(tuple(members), shared or PlainFits(), widest))
    return sorted(apart + groups, key=lambda one: one.members)


def _parts_of(
    estimator: Any, scorer: CandidateScorer, kinds: Sequence[SharedFit]
) -> tuple[list[Step], SharedFit | None, Hashable] | None:
    """Return first steps, how the last shares, and its key; None if there is nothing to share."""
    if getattr(estimator, "_skl_callbacks", None) or set(scorer.fit_params or ()) - {WEIGHTS}:
        return None
    try:
        parts = decompose(estimator)
        if parts is None or (parts[0] and scorer.fit_params):
            return None
        steps, final = parts
        shared = shared_fit_of(final, kinds)
        if shared is not None and (
            (scorer.fit_params and not shared.takes_weights)
            or (shared.predictions_only and not scorer.methods <= PREDICTIONS)
        ):
            shared = None
        key = None if shared is None else shared.group_key(final)
    except Exception:  # a parameter of a type, or a value, that has no identity: say so in its fit
        return None
    if key is None:
        return (steps, None, None) if steps else None
    return steps, shared, key


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
    on_result: OnResult = ignore,
    report: Callable[[float], None] = ignore,
    fit_options: FitOptions | None = None,
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
    fit_options : function of a split and a candidate, by their places: further arguments of
        scikit-learn's fit of one that shares nothing

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
            rows = SplitRows(
                data,
                splits,
                only,
                name,
                n_threads,
                estimators[0],
                scorer.parts,
                scorer.fit_params,
                scorer.score_params,
            )
            _fit_together(group, group.shared, estimators, rows, scorer, keep, report)
        except Exception as error:  # each by itself, and each with its own error
            if not hasattr(estimators[0], "fit"):
                raise
            apart = f"{type(error).__name__}: {error}"
    for at, number in enumerate(only):
        for i, estimator in enumerate(estimators):
            if found[at][i] is None:
                from sklearn.base import clone

                from pipelines.sklearn_private import fit_and_score

                train, test = splits[number]
                with convergence_noted() as noted:
                    scores = fit_and_score(
                        clone(estimator),
                        data.X,
                        data.y,
                        scorer=scorer.scorer,
                        train=train,
                        test=test,
                        fit_params=scorer.fit_params,
                        score_params=scorer.score_params,
                        return_train_score=scorer.train_scores,
                        return_n_test_samples=True,
                        return_times=True,
                        error_score=scorer.error_score,
                        **(fit_options(at, i) if fit_options else SILENT),
                    )
                n = len(estimator.steps) - 1 if hasattr(estimator, "named_steps") else 0
                keep(at, i, CellResult(scores, not noted, n_steps=n, n_steps_made=n, apart=apart))
        if group.shared is None:
            report((at + 1) / len(only))
    return found  # type: ignore[return-value]


def _fit_together(
    group: Group,
    shared: SharedFit,
    estimators: Sequence[Any],
    whole: SplitRows,
    scorer: CandidateScorer,
    keep: OnResult,
    report: Callable[[float], None],
) -> None:
    """Fit and score the candidates of a group, the splits in one call where they share work."""
    n = whole.n_splits
    # What is learned of the training rows, by a scaling or a first step, splits do not share.
    together = not group.most and not whole.data.scaling.learns

    def fit(at: Sequence[int]) -> None:
        mine = list(estimators)
        if len(at) < n and hasattr(mine[0], "get_params"):
            from sklearn.base import clone

            mine = [clone(one) for one in mine]
        parts = [part for one in mine if (part := decompose(one)) is not None]
        rows, seconds, n_made = whole if together else whole.alone(at[0]), 0.0, 0
        steps: dict[str, Any] = {}
        if group.most:
            started = time.perf_counter()
            X, y = rows.train(0)
            place, asked = (whole.data.token, whole.name, whole.numbers[at[0]]), rows.asked(0)
            steps, rows.prepared, n_made = prepare(
                parts[0][0], group.most, Rows(X, asked), y, place
            )
            seconds = (time.perf_counter() - started) / len(mine)

        def respond(response: Response) -> None:
            estimator, final = mine[response.candidate], response.estimator
            if final is not None and steps:
                last = estimator.steps[-1][0]
                done = {**dict(estimator.steps), **steps, last: final}
                estimator.steps = list(done.items())
            elif final is not None:
                estimator = final
            result = _score(response, estimator, rows, scorer)
            result.scores["fit_time"] += seconds
            if response.candidate == 0:
                result.n_steps, result.n_steps_made = len(group.most) * len(mine), n_made
            keep(at[response.split], response.candidate, result)

        def reported(fraction: float) -> None:
            report((at[0] + fraction * len(at)) / n)

        finals = [final for _, final in parts]
        shared.fit_and_respond(rows, finals, scorer.methods, respond, reported)

    for at in [range(n)] if together else [range(i, i + 1) for i in range(n)]:
        fit(at)


def _score(
    response: Response, estimator: Any, rows: SplitRows, scorer: CandidateScorer
) -> CellResult:
    """Score a response as scikit-learn's ``_fit_and_score`` does."""
    split, n_errors = response.split, None
    n_test = len(rows.of_part(split, "test"))
    if response.error is not None:
        return CellResult(scorer.failed(response.error, n_test), n_fits=response.n_fits)
    result: dict[str, Any] = {
        "fit_error": None,
        "n_test_samples": n_test,
        "fit_time": response.fit_seconds,
    }
    for part in scorer.parts:
        started = time.perf_counter()
        truth = rows.targets(split, part)
        params = rows.metadata(scorer.score_params, rows.of_part(split, part))
        see = partial(rows.part_of, split, part)
        result[f"{part}_scores"] = scorer.score(response, estimator, see, truth, part, params)
        if part == "test":
            if response.classes is not None:
                wrong = response.predict("predict", part) != np.asarray(truth)
                n_errors = int(np.count_nonzero(wrong))
            result["score_time"] = response.score_seconds + time.perf_counter() - started
    return CellResult(
        result,
        response.converged,
        n_errors,
        response.n_support,
        response.n_iterations,
        response.n_fits,
    )


def with_jobs(estimator: Any, n_jobs: int) -> Any:
    """Return the estimator, which is changed, with every ``n_jobs`` in it set."""
    found = [
        name
        for name, value in estimator.get_params(deep=True).items()
        if name.rsplit("__", 1)[-1] == "n_jobs" and value != n_jobs
    ]
    return estimator.set_params(**dict.fromkeys(found, n_jobs)) if found else estimator


@contextmanager
def limited(n_threads: int) -> Iterator[None]:
    """Limit BLAS, OpenMP and joblib to so many threads: cores are never oversubscribed."""
    from joblib import parallel_config
    from threadpoolctl import threadpool_limits

    # A process for each job would start a Python and copy the rows.
    with threadpool_limits(n_threads), parallel_config("threading", n_jobs=n_threads):
        yield
