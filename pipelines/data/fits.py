"""A fit on its way from a solver to its row in the journal, and progress between fits."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from threading import Lock
from typing import Any

import numpy as np

_ONE_IMPORT = Lock()


@dataclass(frozen=True)
class Progress:
    """Progress of some work, yielded between its fits.

    Attributes
    ----------
    fraction : float
        Fraction of the work that is done, in [0, 1].
    note : str
        What happens before the first fit, such as an import; may be empty.
    """

    fraction: float
    note: str = ""

    def within(self, start: float, length: float) -> Progress:
        """Progress of a larger piece of work, in which this one has that start and length."""
        return Progress(min(1.0, start + self.fraction * length))


def importing(package: str) -> Iterator[Progress]:
    """Import a slow package, unless it is imported already, and report it as progress.

    The note stands until the work that needs the package reports its own progress.
    """
    if package and package not in sys.modules:
        yield Progress(0.0, f"importing {package}")
    if package:
        # If one thread imports a submodule while another imports its package, the other may see the
        # package half imported: that is how Python breaks the deadlock of their import locks.
        with _ONE_IMPORT:
            import_module(package)


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions of a fit for the rows of a split.

    Attributes
    ----------
    by_method : mapping of str to array
        Predictions for all rows, by the name of a method such as ``"predict"``.
    parts : mapping of str to slice
        Which of those rows belong to ``"test"`` or ``"train"``.
    """

    by_method: Mapping[str, np.ndarray]
    parts: Mapping[str, slice] = field(default_factory=lambda: {"test": slice(None)})

    def __call__(self, method: str, part: str = "test") -> np.ndarray:
        """Predictions of a method for one part of the rows."""
        return self.by_method[method][self.parts[part]]


@dataclass(eq=False)
class Fit:
    """A candidate fitted on a split: made by a solver, scored by the engine, then written as a row.

    Once it is scored, its predictions and its model are dropped.

    Attributes
    ----------
    candidate, split : int
        Positions among the candidates and splits that the solver was given; a caller with a longer
        list replaces them with its own.
    predict : function of a method and a part, or None
        Gives the predictions for a part of the rows; None where the fit failed, and once it is
        scored.
    estimator : object
        The fitted estimator, or an unfitted one where a fit has predictions alone.
    classes : array or None
        Labels of a classifier that has predictions alone.
    error : str or None
        Why the fit failed.
    details : mapping
        Further numbers that only some solvers report.
    n_fits : int
        1 where a fit was made for it, 0 where it reuses the fit of another candidate.
    scores : dict
        With the keys of scikit-learn's ``_fit_and_score``: ``test_scores``, ``train_scores`` if
        requested, ``fit_time``, ``score_time``, ``n_test_samples``, ``fit_error``.
    n_errors : int or None
        Misclassified rows of the split.
    loss : float or None
        Mean negative log-likelihood of the rows' classes, where the solver computes it.
    n_steps, n_steps_made : int
        Number of first pipeline steps that the whole task needed on the split, and of those that
        were fitted rather than reused.
    apart : str
        Why candidates that usually share work were fitted one by one; empty where they were not.
    implementation, reason : str
        What was fitted in place of the estimator, and why; see ``Substitute``.
    """

    candidate: int
    split: int
    predict: Callable[[str, str], Any] | None = None
    estimator: Any = None
    classes: np.ndarray | None = None
    error: str | None = None
    fit_seconds: float = 0.0
    score_seconds: float = 0.0
    converged: bool = True
    n_support: int | None = None
    n_iterations: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    n_fits: int = 1
    scores: dict[str, Any] = field(default_factory=dict)
    n_errors: int | None = None
    loss: float | None = None
    n_steps: int = 0
    n_steps_made: int = 0
    apart: str = ""
    implementation: str = ""
    reason: str = ""
