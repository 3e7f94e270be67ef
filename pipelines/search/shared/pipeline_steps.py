"""The first steps of pipelines: equal ones are fitted once for the training rows of a fold."""

from __future__ import annotations

import copy
import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipelines.data.dataset import copy_of
from pipelines.data.generators import seed_generators
from pipelines.search.shared.base import Rows, identity, is_repeatable

MOST_BYTES = 2**30  # of transformed rows that are kept for the next pipelines
WIDTH = "n_components"
EXACT_OR_BY_SHAPE = ("auto", "full", "covariance_eigh")  # solvers of ``PCA``


@dataclass(frozen=True)
class Step:
    """A transformer of a pipeline.

    Attributes
    ----------
    transformer : unfitted
    key : equal for transformers that do the same; of a principal component analysis but for
        the number of components
    width : int or None, the number of components of such an analysis
    """

    name: str
    transformer: Any
    key: Hashable
    width: int | None = None


def decompose(
    estimator: Any, judged: dict[Hashable, bool] | None = None
) -> tuple[list[Step], Any] | None:
    """Return the first steps of a pipeline and its last; None for one that has to stay whole.

    An estimator that is no pipeline is its own last step.

    Parameters
    ----------
    judged : whether a step can be shared, by its key; what is judged here is added
    """
    judged = {} if judged is None else judged
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
        if step.key not in judged:
            judged[step.key] = _can_be_shared(transformer)
        if not judged[step.key] or hasattr(transformer, "_sklearn_output_config"):
            return None
        steps.append(step)
    return steps, final


def last_of(estimator: Any) -> Any:
    """The last step of a pipeline that ``decompose`` takes apart; else the estimator itself."""
    return estimator.steps[-1][1] if type(estimator).__name__ == "Pipeline" else estimator


def _step(name: str, transformer: Any) -> Step:
    from sklearn.decomposition import PCA

    if type(transformer) is PCA and transformer.svd_solver in EXACT_OR_BY_SHAPE:
        width = transformer.n_components
        if isinstance(width, int) and width > 0 and not isinstance(width, bool):
            return Step(name, transformer, identity(transformer, {WIDTH, "random_state"}), width)
    return Step(name, transformer, identity(transformer))


def _can_be_shared(transformer: Any) -> bool:
    """Whether equal transformers give equal rows, as far as that can be known without the rows."""
    from sklearn.decomposition import PCA

    if type(transformer) is PCA and transformer.svd_solver in EXACT_OR_BY_SHAPE:
        return True
    return is_repeatable(transformer)


def draws(transformer: Any, shape: tuple[int, ...] | None) -> bool:
    """Whether an analysis starts from random numbers, and has no seed for them.

    Parameters
    ----------
    shape : of the rows that it is fitted on; None of a sparse matrix, or where it is not known
    """
    if getattr(transformer, "svd_solver", "") != "auto" or is_repeatable(transformer):
        return False
    if shape is None:
        return True
    (n_rows, n_features), width = shape, transformer.n_components
    is_tall = n_features <= 1000 and n_rows >= 10 * n_features
    is_exact = is_tall or max(n_rows, n_features) <= 500
    return not is_exact and isinstance(width, int) and width < 0.8 * min(n_rows, n_features)


class StepCache:
    """Rows of a data set as the first steps of pipelines transformed them.

    Those that were used last are kept, up to ``MOST_BYTES``. Tasks of other threads wait for what
    one of them makes.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._transformed: OrderedDict[Hashable, tuple[Any, Rows]] = OrderedDict()

    def prepare(
        self,
        steps: Sequence[Step],
        widest: Sequence[int | None],
        rows: Rows,
        y: Any,
        key: tuple[Hashable, ...],
    ) -> tuple[dict[str, Any], Rows, int]:
        """Fit steps, or take them from an earlier pipeline on the same rows.

        Parameters
        ----------
        widest : for each step the most components that any pipeline of the search asks of it, or
            None
        rows : Rows, unchanged ones
        y : targets of the training rows
        key : the seed of the search, None where the global generators are to be left, and what
            names these rows among those of the data set

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
        fitted, n_made, is_seeded = dict[str, Any](), 0, key[0] is not None
        for step, most in zip(steps, widest, strict=True):
            if draws(step.transformer, None if hasattr(rows.fit, "tocsr") else np.shape(rows.fit)):
                raise ValueError(f"{step.name} draws without a seed: pipelines do not share it")
            if step.width is None or most is None or not _holds_narrower(step, most, rows):
                most = step.width
            before = rows
            key = (key, step.key, most)
            with self._lock:
                if key not in self._transformed:
                    if is_seeded:
                        seed_generators(key)
                    self._transformed[key] = _fit(step, before, y, most)
                    n_made += 1
                self._transformed.move_to_end(key)
                while len(self._transformed) > 1 and self._n_bytes > MOST_BYTES:
                    self._transformed.popitem(last=False)
                transformer, rows = self._transformed[key]
            if step.width is not None and step.width != most:
                transformer, rows = _narrower(transformer, rows, step.width, before.fit)
                key = (key, step.width)
            fitted[step.name] = transformer
        return fitted, replace(rows, key=key), n_made

    @property
    def _n_bytes(self) -> int:
        return sum(rows.n_bytes for _, rows in self._transformed.values())


def _holds_narrower(step: Step, most: int, rows: Rows) -> bool:
    """Return whether an analysis with so many components begins with those of one with fewer."""
    n_rows, n_features = np.shape(rows.fit)
    if most > min(n_rows, n_features):
        return False
    if step.transformer.svd_solver != "auto" or max(n_rows, n_features) <= 500:
        return True
    if n_features <= 1000 and n_rows >= 10 * n_features:
        return True  # the eigenvectors of the covariance, whatever their number
    # Below, scikit-learn takes a randomised solver.
    return step.width is not None and step.width >= 0.8 * min(n_rows, n_features)


def _fit(step: Step, rows: Rows, y: Any, most: int | None) -> tuple[Any, Rows]:
    """Fit a step with at most ``most`` components; return it and the rows as it transforms them."""
    from sklearn.base import clone

    transformer = clone(step.transformer)
    if most is not None:
        transformer.set_params(n_components=most)
    X, y = copy_of(rows.fit), copy_of(y)  # some write to what they are given
    if hasattr(transformer, "fit_transform"):
        trained = transformer.fit_transform(X, y)
    else:
        trained = transformer.fit(X, y).transform(X)
    asked = {name: transformer.transform(copy_of(one)) for name, one in rows.asked.items()}
    return transformer, Rows(trained, asked)


def _narrower(pca: Any, rows: Rows, width: int, before: Any) -> tuple[Any, Rows]:
    """Return an analysis with fewer components: the first of those that were found."""
    cut, rank, most = copy.copy(pca), min(np.shape(before)), pca.n_components_
    cut.n_components = cut.n_components_ = width
    for name in (
        "components_",
        "explained_variance_",
        "explained_variance_ratio_",
        "singular_values_",
    ):
        setattr(cut, name, getattr(pca, name)[:width])
    # The mean variance of what is left out.
    dropped = pca.explained_variance_[width:].sum() + pca.noise_variance_ * (rank - most)
    cut.noise_variance_ = dropped / (rank - width) if width < rank else 0.0
    return cut, Rows(
        np.ascontiguousarray(rows.fit[:, :width]),
        {name: np.ascontiguousarray(one[:, :width]) for name, one in rows.asked.items()},
    )
