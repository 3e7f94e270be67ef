"""The engine: the candidates of a group, fitted and scored on the splits of a task.

What candidates share is done once, see ``search/shared``; a candidate that shares nothing goes
through scikit-learn's own ``_fit_and_score``, and every result has the form of that function's.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

from pipelines.data.fits import Fit, Progress
from pipelines.data.generators import generators_restored, seed_generators
from pipelines.data.placement import FoldedData
from pipelines.errors import error_line
from pipelines.search.scoring import CandidateScorer
from pipelines.search.shared import PlainFits, SharedFit, shared_fit_of
from pipelines.search.shared.base import (
    WEIGHTS,
    PipelineRows,
    SplitRows,
    collect_convergence_warnings,
    writes_rows,
)
from pipelines.search.shared.pipeline_steps import PipelineStep, StepCache, decompose, last_of

PLAIN = PlainFits.name


@dataclass(frozen=True)
class CandidateGroup:
    """Candidates that share work.

    Attributes
    ----------
    members : tuple of int, places of candidates
    shared : what their last steps share; None where scikit-learn's own function fits each
    most : for each first step the width with which it is fitted for all candidates, or None
    """

    members: tuple[int, ...]
    shared: SharedFit | None = None
    step_widths: tuple[Any, ...] = ()

    @property
    def name(self) -> str:
        """The name of the shared work, for rows and pages."""
        return self.shared.name if self.shared else PLAIN


def learns_apart(group: CandidateGroup, data: FoldedData) -> bool:
    """Return whether each split learns something before its fits: by a scaling, or a first step.

    Splits do not share that, so that each is fitted by itself.
    """
    of_rows = data.scaling.learns and not (group.shared and group.shared.scales)
    return bool(group.step_widths) or of_rows


SILENT: Mapping[str, Any] = {"verbose": 0, "parameters": None}
FitOptions = Callable[[int, int], Mapping[str, Any]]


def group_candidates(
    estimators: Sequence[Any], scorer: CandidateScorer, *, shared_fits: Sequence[SharedFit] = ()
) -> list[CandidateGroup]:
    """Group the candidates that are fitted together.

    Parameters
    ----------
    estimators : unfitted, with their parameters
    kinds : ways of sharing that go before those of ``search/shared``
    """

    def step_keys(steps: Sequence[PipelineStep]) -> Iterator[Hashable]:
        """Give a key for each pipeline step: the step, and all steps before it."""
        before: Hashable = ()
        for step in steps:
            yield (before, step.key)
            before = (before, step.key, step.width)

    plain_groups, members_by_key = list[CandidateGroup](), dict[Hashable, list[int]]()
    parts_by_candidate: dict[int, tuple[list[PipelineStep], SharedFit | None]] = {}
    widest_by_step = dict[Hashable, Any]()
    judgements = dict[Hashable, bool]()
    for i, estimator in enumerate(estimators):
        parts = _parts_of(estimator, scorer, shared_fits, judgements)
        if parts is None:
            plain_groups.append(CandidateGroup((i,)))
            continue
        steps, shared, key = parts
        parts_by_candidate[i] = steps, shared
        for step_key, step in zip(step_keys(steps), steps, strict=True):
            if step.narrowing is not None:
                widths = (
                    (step.width,)
                    if step_key not in widest_by_step
                    else (step.width, widest_by_step[step_key])
                )
                widest_by_step[step_key] = step.narrowing.widest(widths)
        # What shares its first steps alone is a task of its own, which finds them done.
        of_steps = tuple((step.key, step.width) for step in steps)
        members_by_key.setdefault((of_steps, key if shared else i), []).append(i)
    groups = []
    for members in members_by_key.values():
        steps, shared = parts_by_candidate[members[0]]
        widest = tuple(widest_by_step.get(step_key) for step_key in step_keys(steps))
        groups.append(CandidateGroup(tuple(members), shared or PlainFits(), widest))
    return sorted(plain_groups + groups, key=lambda group: group.members)


def _parts_of(
    estimator: Any,
    scorer: CandidateScorer,
    shared_fits: Sequence[SharedFit],
    judgements: dict[Hashable, bool],
) -> tuple[list[PipelineStep], SharedFit | None, Hashable] | None:
    """Return first steps, how the last shares, and its key; None if there is nothing to share."""
    if getattr(estimator, "_skl_callbacks", None) or set(scorer.fit_params or ()) - {WEIGHTS}:
        return None
    try:
        parts = decompose(estimator, judgements)
        writes = hasattr(estimator, "get_params") and writes_rows(estimator)
        if parts is None or (parts[0] and scorer.fit_params) or writes:
            return None
        steps, final = parts
        shared = shared_fit_of(final, shared_fits)
        if shared is not None and (
            (scorer.fit_params and not shared.takes_weights)
            or (shared.predictions_only and not scorer.methods <= set(shared.gives))
        ):
            shared = None
        key = None if shared is None else shared.group_key(final)
        if key is not None and hasattr(final, "_validate_params"):
            final._validate_params()  # by itself it says what is wrong; one of a group is not asked
    except Exception:  # a parameter of a type, or a value, that has no identity: say so in its fit
        return None
    if key is None:
        return (steps, None, None) if steps else None
    return steps, shared, key


def fit_group(
    group: CandidateGroup,
    estimators: Sequence[Any],
    rows: SplitRows,
    scorer: CandidateScorer,
    fit_options: FitOptions | None = None,
) -> Iterator[Fit | Progress]:
    """Fit the candidates of a group on every split of a task; yield each fit, scored.

    Parameters
    ----------
    estimators : for each member of the group, unfitted, with its parameters; they are used up
    rows : of the task's splits; the ``scaling`` of their data is a first step of all candidates
    fit_options : function of a split and a candidate, by their places: further arguments of
        scikit-learn's fit of one that shares nothing

    Yields
    ------
    A fit for each candidate and split, these by their places, and between them progress.
    """
    missing_fits = dict.fromkeys(product(range(rows.n_splits), range(len(estimators))))
    reason = ""
    if group.shared is not None:
        try:
            for item in _fit_together(group, group.shared, estimators, rows, scorer):
                if isinstance(item, Fit):
                    del missing_fits[item.split, item.candidate]
                yield item
        except Exception as error:  # each by itself, and each with its own error
            if not hasattr(estimators[0], "fit"):
                raise
            reason = error_line(error)
    if not missing_fits:
        return
    from sklearn.base import clone

    for split, candidate in missing_fits:
        fit = Fit(candidate, split, apart=reason)
        options = fit_options(split, candidate) if fit_options else SILENT
        estimator = estimators[candidate]
        if group.shared is not None or rows.n_splits > 1:  # it was used, or will be again
            estimator = clone(estimator)
        _seed(rows, split, group.members[candidate])
        _fit_alone(fit, estimator, rows, scorer, options)
        yield fit
        if group.shared is None:
            yield Progress((split + (candidate + 1) / len(estimators)) / rows.n_splits)


def _split_key(rows: SplitRows, split: int) -> tuple[Hashable, int]:
    """Return what names a split among all of the search."""
    return rows.name, int(rows.numbers[split])


def _seed(rows: SplitRows, split: int, candidate: int) -> None:
    """Seed the global generators by a candidate and a split, unless they are to be left."""
    if rows.seed is not None:
        seed_generators(rows.seed, *_split_key(rows, split), candidate)


def _fit_alone(
    fit: Fit,
    estimator: Any,
    rows: SplitRows,
    scorer: CandidateScorer,
    options: Mapping[str, Any],
) -> None:
    """Fit and score a candidate by scikit-learn's own function; write to ``fit``.

    Parameters
    ----------
    estimator : unfitted; it is used up
    """
    from pipelines.sklearn_private import fit_and_score

    train, test = (rows.row_numbers(fit.split, name) for name in ("train", "test"))
    failures: dict[str, str] = {}

    def score(estimator: Any, X: Any, y: Any) -> dict[str, float]:
        scores = scorer.by_name(estimator, X, y)
        failures.update(
            {name: message for name, message in scores.items() if isinstance(message, str)}
        )
        return scores | dict.fromkeys(failures, math.nan)

    with collect_convergence_warnings() as convergence_warnings:
        fit.scores = fit_and_score(
            estimator,
            rows.data.X,
            rows.data.y,
            train=train,
            test=test,
            return_n_test_samples=True,
            return_times=True,
            scorer=score if scorer.search_scorer is None else scorer.search_scorer,
            error_score=scorer.error_score,
            return_train_score=scorer.train_scores,
            fit_params=scorer.fit_params,
            score_params=scorer.score_params,
            **options,
        )
    if failures:
        fit.scores["test_scores"] |= failures
    fit.converged = not convergence_warnings
    fit.n_steps = len(estimator.steps) - 1 if hasattr(estimator, "named_steps") else 0
    fit.n_steps_made = fit.n_steps


def _fit_together(
    group: CandidateGroup,
    shared: SharedFit,
    estimators: Sequence[Any],
    all_rows: SplitRows,
    scorer: CandidateScorer,
) -> Iterator[Fit | Progress]:
    """Fit and score the candidates of a group, the splits in one call where they share work."""
    n = all_rows.n_splits
    splits_together = not learns_apart(group, all_rows.data)
    for split_indices in [range(n)] if splits_together else [range(i, i + 1) for i in range(n)]:
        candidates = list(estimators)
        if len(split_indices) < n and hasattr(candidates[0], "get_params"):
            from sklearn.base import clone

            candidates = [clone(estimator) for estimator in candidates]
        rows, seconds, n_made = (
            all_rows if splits_together else all_rows.alone(split_indices[0]),
            0.0,
            0,
        )
        steps: dict[str, Any] = {}
        if group.step_widths:
            started = time.perf_counter()
            X, y = rows.train(0)
            cache = all_rows.data.placement.get("steps", StepCache)
            rows_before_steps, key = (
                PipelineRows(X, rows.prediction_rows(0)),
                (all_rows.seed, *_split_key(all_rows, split_indices[0])),
            )
            parts = decompose(candidates[0])
            assert parts is not None
            with nullcontext() if all_rows.seed is not None else generators_restored():
                steps, rows.prepared, n_made = cache.prepare(
                    parts[0], group.step_widths, rows_before_steps, y, key
                )
            seconds = (time.perf_counter() - started) / len(candidates)
        finals = [last_of(candidate) for candidate in candidates]
        if hasattr(candidates[0], "fit"):
            _seed(all_rows, split_indices[0], group.members[0])
        for item in shared.fit_splits(rows, finals, scorer.methods):
            if isinstance(item, Progress):
                yield item.within(split_indices[0] / n, len(split_indices) / n)
                continue
            estimator = candidates[item.candidate]
            if item.estimator is not None and steps:
                fitted = dict(estimator.steps) | steps | {estimator.steps[-1][0]: item.estimator}
                estimator.steps = list(fitted.items())
            elif item.estimator is not None:
                estimator = item.estimator
            scorer.score_fit(item, estimator, rows)
            item.scores["fit_time"] += seconds
            if item.candidate == 0:
                item.n_steps, item.n_steps_made = len(group.step_widths) * len(candidates), n_made
            item.split = split_indices[item.split]
            yield item


def with_jobs(estimator: Any, n_jobs: int) -> Any:
    """Return the estimator, which is changed, with every ``n_jobs`` in it set."""
    names = [
        name
        for name, value in estimator.get_params(deep=True).items()
        if name.rsplit("__", 1)[-1] == "n_jobs" and value != n_jobs
    ]
    return estimator.set_params(**dict.fromkeys(names, n_jobs)) if names else estimator


@contextmanager
def limited(n_threads: int) -> Iterator[None]:
    """Limit BLAS, OpenMP and joblib to so many threads: cores are never oversubscribed."""
    from joblib import parallel_config

    pools = _thread_pools(len(sys.modules))
    # A process for each job would start a Python and copy the rows.
    with pools.limit(limits=n_threads), parallel_config("threading", n_jobs=n_threads):
        yield


@lru_cache(maxsize=1)
def _thread_pools(n_modules: int) -> Any:
    """The libraries of this process that start threads: to find them takes longer than a short fit.

    Parameters
    ----------
    n_modules : that are imported; a further one may have loaded a further library
    """
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
