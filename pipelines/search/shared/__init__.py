"""Work that candidates share, one file for each kind, and the table of them.

A kind of another package is a subclass of ``SharedFit`` that is found by its entry point in the
group ``pleasingly.shared_fits``. The name of the entry point is the package of the estimators, the
first two parts of their module's name: ``lightgbm.sklearn``. Ours come first.
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

# Where a package's estimators share work: the files beside this one, with their ``SHARED_FITS``.
# They are imported when one of its estimators comes: trees do without the path solver.
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
# Packages with a kind whose splits have work in common, of one candidate, too.
OF_SPLITS = ("sklearn.svm", "pipelines.svm", "pipelines.nn")
OTHERS = Extensions("pleasingly.shared_fits", "pipelines.search.shared.base:SharedFit")


def may_share(call: Mapping[str, Any], several_candidates: bool = True) -> bool:
    """Whether a fit may share something with others: a quick look at its classes.

    Parameters
    ----------
    call : arguments of ``_fit_and_score``, by name
    several : whether there are several candidates; else only splits can have work in common
    """
    values = [call["estimator"], *(call["parameters"] or {}).values()]
    return any(hasattr(value, "fit") and _is_known(value, several_candidates) for value in values)


def _is_known(estimator: Any, several_candidates: bool) -> bool:
    steps = getattr(estimator, "steps", ())
    if several_candidates:
        package = _package_of(estimator)
        return len(steps) > 1 or package in FILES or bool(_others_of(package))
    package = _package_of(steps[-1][1] if steps else estimator)
    return package in OF_SPLITS or any(kind.splits_together for kind in _others_of(package))


def _package_of(estimator: Any) -> str:
    return ".".join(type(estimator).__module__.split(".")[:2])


@cache
def _others_of(package: str) -> tuple[SharedFit, ...]:
    """The kinds of other packages for the estimators of a package.

    One that cannot be had is left out with a warning: scores do not depend on what is shared.
    """
    shared_fits = list[Any]()
    for entry in OTHERS.entries(package):
        try:
            shared_fits.append(OTHERS.load_entry(entry)())
        except InputError as error:
            warnings.warn(f"fits share nothing: {error}", RuntimeWarning, stacklevel=2)
    return tuple(shared_fits)


def shared_fit_packages() -> tuple[str, ...]:
    """The distributions beside ours whose versions may decide what shared work computes."""
    return OTHERS.distributions()


def __getattr__(name: str) -> Any:
    # A script whose searches share nothing does without what these import.
    if name in ("PlainFits", "SharedFit"):
        return getattr(import_module(f"{__name__}.base"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def shared_fit_of(estimator: Any, shared_fits: Sequence[SharedFit] = ()) -> SharedFit | None:
    """Return the shared work of an estimator's class; None if it has none.

    Parameters
    ----------
    kinds : ways of sharing that go before those of the table
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
