"""The first steps of pipelines: equal ones are fitted once for the training rows of a fold."""

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

MOST_BYTES = 2**30  # of transformed rows that are kept for the next pipelines


@dataclass(frozen=True)
class PipelineStep:
    """A transformer of a pipeline.

    Attributes
    ----------
    transformer : unfitted
    key : equal for transformers that do the same, but for their width
    width : of those that share a fit with wider ones; else None
    narrowing : how they do so
    """

    name: str
    transformer: Any
    key: Hashable
    width: Any = None
    narrowing: Narrowing | None = None


def decompose(
    estimator: Any, judgements: dict[Hashable, bool] | None = None
) -> tuple[list[PipelineStep], Any] | None:
    """Return the first steps of a pipeline and its last; None for one that has to stay whole.

    An estimator that is no pipeline is its own last step.

    Parameters
    ----------
    judged : whether a step can be shared, by its key; what is judged here is added
    """
    judgements = {} if judgements is None else judgements
    if type(estimator).__name__ != "Pipeline":  # a search without scikit-learn comes here, too
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
    """The last step of a pipeline that ``decompose`` takes apart; else the estimator itself."""
    return estimator.steps[-1][1] if type(estimator).__name__ == "Pipeline" else estimator


def _step(name: str, transformer: Any) -> PipelineStep:
    output = vars(transformer).get("_sklearn_output_config")  # a table, or an array
    narrowing = narrowing_of(transformer) if output is None else None
    if narrowing is None or (width := narrowing.width_of(transformer)) is None:
        return PipelineStep(name, transformer, (identity(transformer), repr(output)))
    key = identity(transformer, {narrowing.parameter, *narrowing.ignored})
    return PipelineStep(name, transformer, key, width, narrowing)


class StepCache:
    """Rows of a data set as the first steps of pipelines transformed them.

    Those that were used last are kept, up to ``MOST_BYTES``. Tasks of other threads wait for what
    one of them makes.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._transformed: OrderedDict[Hashable, tuple[Any, PipelineRows]] = OrderedDict()
        self._refused = dict[Hashable, str]()  # why: pipelines by themselves say so, each

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
        widest : for each step the width with which it is fitted for all pipelines of the search
        rows : Rows, unchanged ones
        y : targets of the training rows
        key : names these rows among those of the data set

        Returns
        -------
        fitted : dict of name to transformer
        rows : Rows, after the last step
        n_made : int, how many steps were fitted now

        Raises
        ------
        ValueError
            A step draws random numbers, which pipelines by themselves would each draw.
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
        """A transformer and its rows, and whether they were made now."""
        with self._lock:
            if reason := self._refused.get(key):
                raise ValueError(reason)
            if is_new := key not in self._transformed:
                seed_generators(key)
                state = state_of_generators()
                try:
                    result = make()
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
    """Fit a step, of a width that others share; give it and the rows as it transforms them."""
    from sklearn.base import clone

    transformer = clone(step.transformer)
    if step.narrowing is not None and fit_width is not None:
        transformer.set_params(**{step.narrowing.parameter: fit_width})
    X, y = copy_of(rows.fit), copy_of(y)  # some write to what they are given
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
