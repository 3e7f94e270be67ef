"""The first steps of pipelines: equal steps are fitted once on the training rows of a split."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pipelines.data.dataset import copy_of
from pipelines.data.generators import seed_generators, state_of_generators
from pipelines.errors import error_line
from pipelines.search.shared.base import PipelineRows, identity
from pipelines.search.shared.narrowing import (
    Narrowing,
    drew_at_random,
    is_deterministic,
    narrowing_of,
)

MOST_BYTES = 2**30  # bytes of transformed rows, kept for the pipelines that follow


@dataclass(frozen=True)
class PipelineStep:
    """A transformer in a pipeline, with the facts that decide whether it shares a fit.

    Attributes
    ----------
    name : str
        Name of the step in its pipeline.
    transformer : unfitted transformer
    key : hashable
        Equal for transformers that differ at most in their width.
    width : optional
        The width of a transformer that can be cut from a wider one; else None.
    narrowing : Narrowing, optional
        How it is cut.
    """

    name: str
    transformer: Any
    key: Hashable
    width: Any = None
    narrowing: Narrowing | None = None


def decompose(
    estimator: Any, judgements: dict[Hashable, bool] | None = None
) -> tuple[list[PipelineStep], Any] | None:
    """The first steps of a pipeline and its last step; None for a pipeline that has to stay whole.

    An estimator that is not a pipeline is its own last step.

    Parameters
    ----------
    estimator : unfitted estimator
    judgements : dict of hashable to bool, optional
        Whether a step can be shared, by its key. New judgements are added, so that a search judges
        each step once.
    """
    judgements = {} if judgements is None else judgements
    if type(estimator).__name__ != "Pipeline":  # by name: a search may do without scikit-learn
        return [], estimator
    from sklearn.pipeline import Pipeline

    if type(estimator) is not Pipeline:
        return [], estimator
    if estimator.transform_input is not None or hasattr(estimator, "_sklearn_output_config"):
        return None
    final = estimator.steps[-1][1]
    if final is None or final == "passthrough":
        return None
    steps = []
    for name, transformer in estimator.steps[:-1]:
        if transformer is None or transformer == "passthrough":
            continue
        step = _step(name, transformer)
        if step.key not in judgements:
            judgements[step.key] = is_deterministic(transformer)
        if not judgements[step.key]:
            return None
        steps.append(step)
    return steps, final


def last_of(estimator: Any) -> Any:
    """The last step of a pipeline that ``decompose`` has divided; else the estimator itself."""
    return estimator.steps[-1][1] if type(estimator).__name__ == "Pipeline" else estimator


def _step(name: str, transformer: Any) -> PipelineStep:
    """The step of a transformer, with its width where it can be cut from a wider one."""
    # What ``set_output`` stored. A table cannot be cut by columns as arrays are.
    output = vars(transformer).get("_sklearn_output_config")
    narrowing = narrowing_of(transformer) if output is None else None
    if narrowing is None or (width := narrowing.width_of(transformer)) is None:
        return PipelineStep(name, transformer, (identity(transformer), repr(output)))
    key = identity(transformer, {narrowing.parameter, *narrowing.ignored})
    return PipelineStep(name, transformer, key, width, narrowing)


class StepCache:
    """Rows of a data set as the first steps of pipelines transformed them.

    The rows used last are kept, up to ``MOST_BYTES``. A lock lets only one thread fit at a time;
    the others then find its result.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._transformed: OrderedDict[Hashable, tuple[Any, PipelineRows]] = OrderedDict()
        # Why a step failed. Its pipelines are then fitted by themselves, and report it themselves.
        self._refused = dict[Hashable, str]()

    def prepare(
        self,
        steps: Sequence[PipelineStep],
        widest: Sequence[Any],
        rows: PipelineRows,
        y: Any,
        key: Hashable,
    ) -> tuple[dict[str, Any], PipelineRows, int]:
        """Fit steps, or take them from an earlier pipeline on the same rows.

        Parameters
        ----------
        steps : sequence of PipelineStep
        widest : sequence
            For each step, the width with which it is fitted for all pipelines of the search.
        rows : PipelineRows
            Rows before the first step.
        y : array of shape (n_samples,) or (n_samples, n_targets)
            Targets of the training rows.
        key : hashable
            Distinguishes these rows from others of the data set.

        Returns
        -------
        fitted : dict of str to fitted transformer
            By the names of the steps.
        rows : PipelineRows
            Rows after the last step.
        n_made : int
            Number of steps that were fitted by this call.

        Raises
        ------
        ValueError
            A step draws random numbers without a seed: each separate pipeline would draw its own.
        Exception
            A step failed, now or, as a ``ValueError`` with its message, in an earlier call.
        """
        fitted, n_made = dict[str, Any](), 0
        for step, fit_width in zip(steps, widest, strict=True):
            narrowing, input_rows = step.narrowing, rows
            if narrowing is None or not narrowing.holds(step.transformer, fit_width, rows):
                fit_width = step.width
            key = (key, step.key, fit_width)
            (transformer, rows), is_new = self._fetch(
                key, partial(_fit, step, input_rows, y, fit_width)
            )
            n_made += is_new
            if narrowing is not None and step.width != fit_width:
                cut = partial(narrowing.cut, transformer, rows, step.width, input_rows)
                key = (key, step.width)
                (transformer, rows), _ = self._fetch(key, cut)
            fitted[step.name] = transformer
        return fitted, replace(rows, key=key), n_made

    def _fetch(
        self, key: Hashable, make: Callable[[], tuple[Any, PipelineRows]]
    ) -> tuple[tuple[Any, PipelineRows], bool]:
        """The transformer and rows for a key, made if they are missing; and whether they were."""
        with self._lock:
            if reason := self._refused.get(key):
                raise ValueError(reason)
            if is_new := key not in self._transformed:
                seed_generators(key)
                state = state_of_generators()
                try:
                    result = make()
                    # A draw from a global generator: each separate pipeline would make its own.
                    if state_of_generators() != state:
                        raise ValueError("a step draws without a seed: pipelines do not share it")
                    self._transformed[key] = result
                except Exception as error:
                    self._refused[key] = error_line(error)
                    raise
            self._transformed.move_to_end(key)
            while len(self._transformed) > 1 and self._n_bytes > MOST_BYTES:
                self._transformed.popitem(last=False)
            return self._transformed[key], is_new

    @property
    def _n_bytes(self) -> int:
        return sum(rows.n_bytes for _, rows in self._transformed.values())


def _fit(
    step: PipelineStep, rows: PipelineRows, y: Any, fit_width: Any
) -> tuple[Any, PipelineRows]:
    """Fit a step with the width that pipelines share, and transform the rows with it.

    Raises
    ------
    ValueError
        The step drew random numbers without a seed.
    """
    from sklearn.base import clone

    transformer = clone(step.transformer)
    if step.narrowing is not None and fit_width is not None:
        transformer.set_params(**{step.narrowing.parameter: fit_width})
    X, y = copy_of(rows.fit), copy_of(y)  # some transformers write to their input
    if step.narrowing is not None and not step.narrowing.needs_rows():
        return transformer.fit(X, y), PipelineRows(None, {})
    if hasattr(transformer, "fit_transform"):
        train_rows = transformer.fit_transform(X, y)
    else:
        train_rows = transformer.fit(X, y).transform(X)
    if drew_at_random(transformer):
        raise ValueError(f"{step.name} draws without a seed: pipelines do not share it")
    prediction_rows = {
        name: transformer.transform(copy_of(part)) for name, part in rows.prediction_rows.items()
    }
    return transformer, PipelineRows(train_rows, prediction_rows)
