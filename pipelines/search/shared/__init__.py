"""Work that candidates share, one file for each kind, and the table of them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from pipelines.search.shared.base import PlainFits, SharedFit

__all__ = ["PlainFits", "SharedFit", "shared_fit_of"]

# Where a package's estimators share work: the files beside this one, with their ``KINDS``. They are
# imported when one of its estimators comes: a search of trees does without the path solver.
FILES = {
    "sklearn.ensemble": "ensembles composites",
    "sklearn.linear_model": "linear",
    "sklearn.neighbors": "neighbors",
    "sklearn.svm": "svm",
    "pipelines.svm": "svm",
    "pipelines.nn": "networks",
}


def shared_fit_of(estimator: Any, kinds: Sequence[SharedFit] = ()) -> SharedFit | None:
    """Return the shared work of an estimator's class; None if it has none.

    Parameters
    ----------
    kinds : ways of sharing that go before those of the table
    """
    for kind in kinds:
        if kind.knows(estimator):
            return kind
    package = ".".join(type(estimator).__module__.split(".")[:2])
    for file in FILES.get(package, "").split():
        for kind in import_module(f"{__name__}.{file}").KINDS:
            if type(estimator) in kind.types:
                shared: SharedFit = kind
                return shared
    return None
