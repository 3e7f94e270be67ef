"""The engine: fits and scores the candidates of a group on the splits of a task.

Work that candidates share is done once, see ``search/shared``. A candidate that shares nothing
goes through scikit-learn's own ``_fit_and_score``; every result has the form of that function's.
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
    members : tuple of int
        Candidate numbers.
    shared : SharedFit, optional
        How their last steps share a fit; None if scikit-learn's own function fits each.
    step_widths : tuple
        For each first step, the width, such as a number of components, with which it is fitted
        once for all candidates; None for a step without one.
    """

    members: tuple[int, ...]
    shared: SharedFit | None = None
    step_widths: tuple[Any, ...] = ()

    @property
    def name(self) -> str:
        """Name of the shared work, as rows and pages show it."""
        return self.shared.name if self.shared else PLAIN


def learns_apart(group: CandidateGroup, data: FoldedData) -> bool:
    """Whether something is learned on each split before its fits: by a scaling or a first step.

    Splits cannot share that, so each one is then fitted by itself.
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
    estimators : sequence of scikit-learn estimators
        One per candidate, unfitted, with its parameters.
    scorer : CandidateScorer
        Decides what a fit has to provide: predictions alone allow more sharing.
    shared_fits : sequence of SharedFit
        Ways of sharing that are tried before those of ``search/shared``.

    Returns
    -------
    list of CandidateGroup
        Every candidate is in exactly one.
    """

    def step_keys(steps: Sequence[PipelineStep]) -> Iterator[Hashable]:
        """A key for each pipeline step: the step and all steps before it."""
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
        # A candidate that shares first steps only is a group of its own: its task finds the
        # fitted steps in the cache of the process.
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
    """First steps, shared fit of the last step and its group key; None if nothing is shared."""
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
        if key is not None and hasattr(final, "_parameter_constraints"):
            # A shared fit skips scikit-learn's validation. An invalid candidate is left out of the
            # group here and raises its own error in a plain fit.
            final._validate_params()
    except Exception:  # an invalid parameter, or one that cannot be compared: a plain fit
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
    """Fit the candidates of a group on every split of a task and yield each scored fit.

    Parameters
    ----------
    group : CandidateGroup
    estimators : sequence of scikit-learn estimators
        One per member, unfitted, with its parameters. They may be fitted in place.
    rows : SplitRows
        Rows of the task's splits. The ``scaling`` of their data is a first step of all candidates.
    scorer : CandidateScorer
    fit_options : callable, optional
        Function of the positions of a split and a candidate within the task that returns further
        arguments of ``_fit_and_score``, for fits that share nothing.

    Yields
    ------
    Fit or Progress
        One fit per candidate and split, identified by their positions within the task, and
        progress in between.
    """
    missing_fits = dict.fromkeys(product(range(rows.n_splits), range(len(estimators))))
    reason = ""
    if group.shared is not None:
        try:
            for item in _fit_together(group, group.shared, estimators, rows, scorer):
                if isinstance(item, Fit):
                    del missing_fits[item.split, item.candidate]
                yield item
        except Exception as error:  # plain fits follow, each of which may raise its own error
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
        if group.shared is not None or rows.n_splits > 1:  # it was fitted, or will be fitted again
            estimator = clone(estimator)
        _seed(rows, split, group.members[candidate])
        _fit_alone(fit, estimator, rows, scorer, options)
        yield fit
        if group.shared is None:
            yield Progress((split + (candidate + 1) / len(estimators)) / rows.n_splits)


def _split_key(rows: SplitRows, split: int) -> tuple[Hashable, int]:
    """A key that identifies a split among all splits of the search."""
    return rows.name, int(rows.numbers[split])


def _seed(rows: SplitRows, split: int, candidate: int) -> None:
    """Seed the global generators by candidate and split, unless the search has no seed.

    So the result of a fit depends neither on the worker nor on what was fitted before.
    """
    if rows.seed is not None:
        seed_generators(rows.seed, *_split_key(rows, split), candidate)


def _fit_alone(
    fit: Fit,
    estimator: Any,
    rows: SplitRows,
    scorer: CandidateScorer,
    options: Mapping[str, Any],
) -> None:
    """Fit and score a candidate by scikit-learn's own ``_fit_and_score``; fills in ``fit``."""
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
    """Fit and score the candidates of a group, all splits in one call where splits share work."""
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
    """Set every ``n_jobs`` within an estimator, in place; returns the estimator."""
    names = [
        name
        for name, value in estimator.get_params(deep=True).items()
        if name.rsplit("__", 1)[-1] == "n_jobs" and value != n_jobs
    ]
    return estimator.set_params(**dict.fromkeys(names, n_jobs)) if names else estimator


@contextmanager
def limited(n_threads: int) -> Iterator[None]:
    """Limit BLAS, OpenMP and joblib to ``n_threads``, so that cores are not oversubscribed."""
    from joblib import parallel_config

    pools = _thread_pools(len(sys.modules))
    # Threads: processes would each start a Python interpreter and copy the rows.
    with pools.limit(limits=n_threads), parallel_config("threading", n_jobs=n_threads):
        yield


@lru_cache(maxsize=1)
def _thread_pools(n_modules: int) -> Any:
    """The thread pools of this process, cached: finding them takes longer than a short fit.

    Parameters
    ----------
    n_modules : int
        Number of imported modules, the key of the cache: a new module may load a new library.
    """
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
