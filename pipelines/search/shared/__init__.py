"""Fits in which candidates share work: one file for each family of estimators, and their table.

Another package adds a subclass of ``SharedFit`` by an entry point in the group
``pleasingly.shared_fits``. The entry point is named after the package of the estimators, the first
two parts of their module's name, such as ``lightgbm.sklearn``. Where several shared fits know an
estimator, ours come first.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pipelines.errors import InputError
from pipelines.extensions import Extensions

if TYPE_CHECKING:
    from pipelines.search.shared.base import PlainFits, SharedFit

__all__ = ["PlainFits", "SharedFit", "may_share", "shared_fit_of"]

# The files beside this one whose ``SHARED_FITS`` serve the estimators of a package. A file is
# imported when the first of these estimators comes: a search of trees never loads the path solver.
FILES = {
    "sklearn.compose": "transformed_targets",
    "sklearn.ensemble": "ensembles composites",
    "sklearn.linear_model": "linear",
    "sklearn.neighbors": "neighbors",
    "sklearn.svm": "svm",
    "sklearn.tree": "trees",
    "pipelines.svm": "svm",
    "pipelines.nn": "networks",
}
# Packages whose shared fits save work between splits, so that even a single candidate gains.
OF_SPLITS = ("sklearn.svm", "pipelines.svm", "pipelines.nn")
OTHERS = Extensions("pleasingly.shared_fits", "pipelines.search.shared.base:SharedFit")


def may_share(call: Mapping[str, Any], several_candidates: bool = True) -> bool:
    """Whether a fit may share work with others, as far as the classes of its estimators tell.

    Parameters
    ----------
    call : dict
        Arguments of scikit-learn's ``_fit_and_score``, by name.
    several_candidates : bool, default True
        Whether the search has several candidates; if not, only splits can have work in common.

    Returns
    -------
    bool
        True where a closer look, which imports more, is worthwhile.
    """
    values = [call["estimator"], *(call["parameters"] or {}).values()]
    return any(hasattr(value, "fit") and _is_known(value, several_candidates) for value in values)


def _is_known(estimator: Any, several_candidates: bool) -> bool:
    """Whether a table lists the package of an estimator, or of the last step of a pipeline."""
    steps = getattr(estimator, "steps", ())
    if several_candidates:
        package = _package_of(estimator)
        return len(steps) > 1 or package in FILES or bool(_others_of(package))
    package = _package_of(steps[-1][1] if steps else estimator)
    return package in OF_SPLITS or any(kind.splits_together for kind in _others_of(package))


def _package_of(estimator: Any) -> str:
    """The first two parts of the name of an estimator's module, such as ``sklearn.svm``."""
    return ".".join(type(estimator).__module__.split(".")[:2])


@cache
def _others_of(package: str) -> tuple[SharedFit, ...]:
    """The shared fits that other packages add for the estimators of a package.

    A shared fit that cannot be loaded is left out with a warning: scores do not depend on sharing.
    """
    shared_fits = list[Any]()
    for entry in OTHERS.entries(package):
        try:
            shared_fits.append(OTHERS.load_entry(entry)())
        except InputError as error:
            warnings.warn(f"fits share nothing: {error}", RuntimeWarning, stacklevel=2)
    return tuple(shared_fits)


def shared_fit_packages() -> tuple[str, ...]:
    """The distributions, besides ours, whose versions may change what shared fits compute."""
    return OTHERS.distributions()


def __getattr__(name: str) -> Any:
    # Lazy, so that a script whose searches share nothing does not import what ``base`` imports.
    if name in ("PlainFits", "SharedFit"):
        return getattr(import_module(f"{__name__}.base"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def shared_fit_of(estimator: Any, shared_fits: Sequence[SharedFit] = ()) -> SharedFit | None:
    """The shared fit for the class of an estimator; None if there is none.

    Parameters
    ----------
    estimator : estimator or candidate
    shared_fits : sequence of SharedFit, optional
        Shared fits that are tried before those of the table.
    """
    for shared_fit in shared_fits:
        if shared_fit.knows(estimator):
            return shared_fit
    for file in FILES.get(_package_of(estimator), "").split():
        for shared_fit in import_module(f"{__name__}.{file}").SHARED_FITS:
            if shared_fit.knows(estimator):
                result: SharedFit = shared_fit
                return result
    for shared_fit in _others_of(_package_of(estimator)):
        if shared_fit.knows(estimator):
            return shared_fit
    return None
