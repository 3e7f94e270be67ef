"""What a fit leaves on its way from the solver to its row, and how far the work is."""

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
    """How far some work is, yielded between its fits.

    Attributes
    ----------
    fraction : float in [0, 1], of the work that is done
    note : what goes on before the first fit, such as an import, or nothing
    """

    fraction: float
    note: str = ""

    def within(self, start: float, length: float) -> Progress:
        """Return the progress of work of which this is a part."""
        return Progress(min(1.0, start + self.fraction * length))


def importing(package: str) -> Iterator[Progress]:
    """Import a package that takes long, where that is still to be done, and tell of it.

    The note stands until the work that needs the package first tells how far it is.
    """
    if package and package not in sys.modules:
        yield Progress(0.0, f"importing {package}")
    if package:
        # A thread that asks for a part of a package while another imports the whole can have the
        # other find it half imported (Python breaks the deadlock of their locks in that way).
        with _ONE_IMPORT:
            import_module(package)


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions of the rows of a split that were asked about.

    Attributes
    ----------
    by_method : arrays by the name of a method, such as ``"predict"``; all rows asked about
    parts : which of those rows are of a part, by its name, ``"test"`` or ``"train"``
    """

    by_method: Mapping[str, np.ndarray]
    parts: Mapping[str, slice] = field(default_factory=lambda: {"test": slice(None)})

    def __call__(self, method: str, part: str = "test") -> np.ndarray:
        """Return the predictions of a part."""
        return self.by_method[method][self.parts[part]]


@dataclass(eq=False)
class Fit:
    """A candidate fitted on a split: made by a solver, scored by the engine, then a row.

    Scored, it has neither predictions nor a model any more.

    Attributes
    ----------
    candidate, split : int, places among the candidates and splits that whoever yields it was asked
        for; a caller that asked for others puts its own there
    predict : function of a method and a part of the rows, which gives the array; None where the
        fit failed, and once it is scored
    estimator : fitted; or unfitted, where there are predictions alone
    classes : the labels of a classifier that has predictions alone
    error : why there is no fit
    details : numbers that its solver alone has
    n_fits : 1 where a fit was made for it, 0 where another's serves
    scores : with the keys of scikit-learn's ``_fit_and_score``: ``test_scores``, ``train_scores``
        if asked for, ``fit_time``, ``score_time``, ``n_test_samples``, ``fit_error``
    n_errors : misclassified rows of the split
    loss : mean negative logarithm of the probability of a row's class, where its solver measures it
    n_steps, n_steps_made : first steps asked for, and fitted, for all of its task on the split
    apart : why candidates that share work were fitted each by itself, or nothing
    implementation, reason : what was fitted, and why that; see ``Substitute``
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
