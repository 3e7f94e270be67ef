"""Transformers that keep some features: one fit serves all widths, the numbers that are kept.

A principal component analysis with few components is the beginning of one with many. A univariate
selection scores each feature by itself, however many it keeps.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from pipelines.data.dataset import read_only
from pipelines.search.shared.base import SEED, PipelineRows, values_inside

EXACT_OR_BY_SHAPE = ("auto", "full", "covariance_eigh")  # solvers of ``PCA``
# Functions that score features and draw no random numbers, and those that draw without a seed.
# Others are unknown, and taken for ones that draw.
SCORES = ("f_classif", "f_regression", "chi2", "r_regression")
DRAWING_SCORES = ("mutual_info_classif", "mutual_info_regression")
UNIVARIATE = {
    "SelectKBest": "k",
    "SelectPercentile": "percentile",
    "SelectFpr": "alpha",
    "SelectFdr": "alpha",
    "SelectFwe": "alpha",
}


@dataclass(frozen=True)
class Narrowing(ABC):
    """How transformers that differ only in one parameter, their width, share a fit.

    Attributes
    ----------
    parameter : str
        Name of the parameter that sets the width.
    ignored : tuple of str
        Names of parameters that do not change the result.
    """

    parameter: str
    ignored: tuple[str, ...] = ()

    def width_of(self, transformer: Any) -> Any:
        """The width of a transformer; None if it cannot share a fit."""
        width = getattr(transformer, self.parameter)
        return width if self.accepts(width) else None

    @abstractmethod
    def accepts(self, width: Any) -> bool:
        """Whether transformers of this width can share a fit."""

    @abstractmethod
    def widest(self, widths: Sequence[Any]) -> Hashable:
        """The width of the transformer that is fitted for all of these widths."""

    @abstractmethod
    def holds(self, transformer: Any, widest: Any, rows: PipelineRows) -> bool:
        """Whether this transformer can be cut from the widest one, fitted on these rows.

        Parameters
        ----------
        transformer : unfitted transformer
        widest : width of the transformer that is fitted for all
        rows : PipelineRows
            The rows that it is fitted on.
        """

    def needs_rows(self) -> bool:
        """Whether narrower rows are cut from the rows that the widest transformer returns."""
        return True

    @abstractmethod
    def cut(
        self, fitted: Any, rows: PipelineRows, width: Any, input_rows: PipelineRows
    ) -> tuple[Any, PipelineRows]:
        """The fitted transformer of a smaller width, and the rows as it transforms them.

        Parameters
        ----------
        fitted : fitted transformer
            The widest.
        rows : PipelineRows
            The rows that the widest returned.
        width : width of the transformer
        input_rows : PipelineRows
            The rows on which the widest was fitted.

        Raises
        ------
        ValueError
            A separate fit would warn or fail, so that the candidate has to be fitted by itself.
        """


class Components(Narrowing):
    """Exact principal component analyses, whose first components do not depend on later ones."""

    def accepts(self, width: Any) -> bool:
        return isinstance(width, int) and width > 0 and not isinstance(width, bool)

    def widest(self, widths: Sequence[Any]) -> Hashable:
        return max(widths)

    def holds(self, transformer: Any, widest: Any, rows: PipelineRows) -> bool:
        n_rows, n_features = np.shape(rows.fit)
        if widest > min(n_rows, n_features):
            return False
        if transformer.svd_solver != "auto" or is_exact_by_shape(n_rows, n_features):
            return True
        # With fewer components ``svd_solver="auto"`` takes a randomised solver.
        return bool(transformer.n_components >= 0.8 * min(n_rows, n_features))

    def cut(
        self, fitted: Any, rows: PipelineRows, width: Any, input_rows: PipelineRows
    ) -> tuple[Any, PipelineRows]:
        transformer, rank, widest = (
            copy.copy(fitted),
            min(np.shape(input_rows.fit)),
            fitted.n_components_,
        )
        transformer.n_components = transformer.n_components_ = width
        for name in (
            "components_",
            "explained_variance_",
            "explained_variance_ratio_",
            "singular_values_",
        ):
            setattr(transformer, name, getattr(fitted, name)[:width])
        # The noise is the mean variance of the components that are left out.
        dropped_variance = fitted.explained_variance_[width:].sum() + fitted.noise_variance_ * (
            rank - widest
        )
        transformer.noise_variance_ = dropped_variance / (rank - width) if width < rank else 0.0
        prediction_rows = {
            name: np.ascontiguousarray(part[:, :width])
            for name, part in rows.prediction_rows.items()
        }
        return transformer, PipelineRows(np.ascontiguousarray(rows.fit[:, :width]), prediction_rows)


class Selections(Narrowing):
    """Univariate feature selections that differ only in how many features they keep."""

    def accepts(self, width: Any) -> bool:
        if self.parameter == "k":
            return width == "all" if isinstance(width, str) else type(width) is int and width > 0
        largest = {"percentile": 100, "alpha": 1}[self.parameter]
        return type(width) in (int, float) and 0 < width <= largest

    def widest(self, widths: Sequence[Any]) -> Hashable:
        return None  # the scores are the same, whichever is fitted

    def holds(self, transformer: Any, widest: Any, rows: PipelineRows) -> bool:
        return True

    def needs_rows(self) -> bool:
        return False

    def cut(
        self, fitted: Any, rows: PipelineRows, width: Any, input_rows: PipelineRows
    ) -> tuple[Any, PipelineRows]:
        n_features = fitted.n_features_in_
        transformer = copy.copy(fitted).set_params(**{self.parameter: width})
        if (self.parameter == "k" and width != "all" and width > n_features) or (
            not transformer.get_support().any()
        ):
            raise ValueError(f"{type(fitted).__name__} warns, or fails, with {width}")
        prediction_rows = {
            name: transformer.transform(read_only(part))
            for name, part in input_rows.prediction_rows.items()
        }
        return transformer, PipelineRows(
            transformer.transform(read_only(input_rows.fit)), prediction_rows
        )


def narrowing_of(transformer: Any) -> Narrowing | None:
    """How a transformer shares a fit with others of its class; None if it shares none."""
    transformer_class = type(transformer)
    if not transformer_class.__module__.startswith(
        ("sklearn.decomposition", "sklearn.feature_selection")
    ):
        return None
    name = transformer_class.__name__
    if name == "PCA":
        return COMPONENTS if transformer.svd_solver in EXACT_OR_BY_SHAPE else None
    return Selections(UNIVARIATE[name]) if name in UNIVARIATE else None


COMPONENTS = Components("n_components", (SEED,))


def is_deterministic(transformer: Any) -> bool:
    """Whether equal transformers return equal rows, as far as that is known before the fit.

    Whatever draws random numbers, in the transformer or inside it, has to have an integer as its
    seed. Principal component analyses may have none, as their solver depends on the rows; see
    ``drew_at_random``. A function that scores features counts as one that draws, unless we know it.
    """
    return not any(
        (name == SEED and not is_seed(value) and narrowing_of(owner) is not COMPONENTS)
        or (name == "score_func" and not _is_known_score(value))
        or is_unseeded_splitter(value)
        for owner, name, value in values_inside(transformer)
    )


def is_unseeded_splitter(value: Any) -> bool:
    """Whether a value is a splitter that shuffles without a seed."""
    is_splitter = hasattr(value, "split") and hasattr(value, "get_n_splits")
    return is_splitter and getattr(value, "shuffle", True) and not is_seed(getattr(value, SEED, 0))


def is_seed(value: Any) -> bool:
    """Whether a value of ``random_state`` makes fits repeatable."""
    return isinstance(value, int) and not isinstance(value, bool)


def _is_known_score(score: Any) -> bool:
    """Whether a function that scores features is scikit-learn's and uses no unseeded randomness."""
    is_seeded = isinstance(score, partial) and is_seed(score.keywords.get(SEED))
    function = score.func if isinstance(score, partial) else score
    of_sklearn = import_module("sklearn.feature_selection")
    names = (*SCORES, *DRAWING_SCORES) if is_seeded else SCORES
    return any(function is getattr(of_sklearn, name) for name in names)


def drew_at_random(transformer: Any) -> bool:
    """Whether a principal component analysis, this one or one inside, used unseeded randomness."""
    return any(
        getattr(analysis, "_fit_svd_solver", "") in ("randomized", "arpack")
        and not is_seed(analysis.random_state)
        for analysis in fitted_inside(transformer)
    )


def fitted_inside(value: Any) -> Iterator[Any]:
    """The principal component analyses in a fitted transformer, itself among them."""
    if isinstance(value, list | tuple):
        for part in value:
            yield from fitted_inside(part)
    elif narrowing_of(value) is COMPONENTS:
        yield value
    elif hasattr(value, "get_params") and not isinstance(value, type):
        yield from fitted_inside(list(vars(value).values()))


def is_exact_by_shape(n_rows: int, n_features: int) -> bool:
    """Whether ``PCA(svd_solver="auto")`` is exact whatever the number of components.

    That is so for few rows and features, and for few features with many rows, where scikit-learn
    decomposes the covariance.
    """
    return max(n_rows, n_features) <= 500 or (n_features <= 1000 and n_rows >= 10 * n_features)
