"""Transformers that keep some of the columns: one fit for all numbers that pipelines keep.

A principal component analysis with few components is the beginning of one with many. A selection
of features scores each by itself, however many it keeps.
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
# Scores of features that draw no random numbers; others may.
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
    """How transformers that differ in one parameter, their width, share a fit.

    Attributes
    ----------
    parameter : the name of the width
    ignored : names of other parameters that change nothing
    """

    parameter: str
    ignored: tuple[str, ...] = ()

    def width_of(self, transformer: Any) -> Any:
        """The width of a transformer; None where it shares no fit with others."""
        width = getattr(transformer, self.parameter)
        return width if self.accepts(width) else None

    @abstractmethod
    def accepts(self, width: Any) -> bool:
        """Whether it is one of those widths that share a fit."""

    @abstractmethod
    def widest(self, widths: Sequence[Any]) -> Hashable:
        """The width of the transformer that is fitted for all."""

    @abstractmethod
    def holds(self, transformer: Any, widest: Any, rows: PipelineRows) -> bool:
        """Whether the widest, fitted on these rows, has this transformer in it."""

    def needs_rows(self) -> bool:
        """Whether narrower rows are cut out of those that the widest gives."""
        return True

    @abstractmethod
    def cut(
        self, fitted: Any, rows: PipelineRows, width: Any, input_rows: PipelineRows
    ) -> tuple[Any, PipelineRows]:
        """The transformer of a width, and the rows as it transforms them.

        Parameters
        ----------
        fitted, rows : the widest, and what it gives
        before : the rows that it was given

        Raises
        ------
        ValueError
            By itself it would warn, or fail.
        """


class Components(Narrowing):
    """Principal component analyses that are exact: the first components do not depend on others."""

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
        # Below, scikit-learn takes a randomised solver.
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
        # The mean variance of what is left out.
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
    """Selections of features by a score of each, of which only the number kept differs."""

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
    """How a transformer shares fits with others of its class; None where it does not."""
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
    """Whether equal transformers give equal rows, as far as can be known without the rows.

    Of what draws, here or inside, each has an integer as its seed. Analyses whose solver depends
    on the rows may have none, see ``drew_at_random``. A score of features may draw unless
    it is known.
    """
    return not any(
        (name == SEED and not is_seed(value) and narrowing_of(owner) is not COMPONENTS)
        or (name == "score_func" and not _is_known_score(value))
        or is_unseeded_splitter(value)
        for owner, name, value in values_inside(transformer)
    )


def is_unseeded_splitter(value: Any) -> bool:
    """Whether a value is what makes splits, by chance and without a seed."""
    is_splitter = hasattr(value, "split") and hasattr(value, "get_n_splits")
    return is_splitter and getattr(value, "shuffle", True) and not is_seed(getattr(value, SEED, 0))


def is_seed(value: Any) -> bool:
    """Whether what a parameter says makes fits repeatable."""
    return isinstance(value, int) and not isinstance(value, bool)


def _is_known_score(score: Any) -> bool:
    is_seeded = isinstance(score, partial) and is_seed(score.keywords.get(SEED))
    function = score.func if isinstance(score, partial) else score
    of_sklearn = import_module("sklearn.feature_selection")
    names = (*SCORES, *DRAWING_SCORES) if is_seeded else SCORES
    return any(function is getattr(of_sklearn, name) for name in names)


def drew_at_random(transformer: Any) -> bool:
    """Whether an analysis, here or inside, started from random numbers, and has no seed."""
    return any(
        getattr(analysis, "_fit_svd_solver", "") in ("randomized", "arpack")
        and not is_seed(analysis.random_state)
        for analysis in fitted_inside(transformer)
    )


def fitted_inside(value: Any) -> Iterator[Any]:
    """The analyses that a fitted transformer, or its fitted parts, are."""
    if isinstance(value, list | tuple):
        for part in value:
            yield from fitted_inside(part)
    elif narrowing_of(value) is COMPONENTS:
        yield value
    elif hasattr(value, "get_params") and not isinstance(value, type):
        yield from fitted_inside(list(vars(value).values()))


def is_exact_by_shape(n_rows: int, n_features: int) -> bool:
    """Whether ``PCA`` takes, by itself, an exact solver however many components it is to find.

    Of few rows and columns; and where columns are few and rows many, which it turns into the
    covariance.
    """
    return max(n_rows, n_features) <= 500 or (n_features <= 1000 and n_rows >= 10 * n_features)
