"""Work that candidates share, one file for each kind, and the table of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from pipelines.search.shared.base import PlainFits, SharedFit

__all__ = ["PlainFits", "SharedFit", "shared_fit_of"]


def shared_fit_of(estimator: Any, kinds: Sequence[SharedFit] = ()) -> SharedFit | None:
    """Return the shared work of an estimator's class; None if it has none.

    Parameters
    ----------
    kinds : ways of sharing that go before those of the table
    """
    for kind in kinds:
        if kind.knows(estimator):
            return kind
    return _shared_fits().get(type(estimator))


@cache
def _shared_fits() -> dict[type, SharedFit]:
    """Return the table of kinds, by the classes that they know."""
    # Here, as those classes are scikit-learn's, which a short search does without.
    from pipelines.search.shared.ensembles import Bags, Boosting, Forests, HistogramBoosting
    from pipelines.search.shared.linear import Lassos, Logistic, Ridges
    from pipelines.search.shared.linear_svc import LinearSVCs
    from pipelines.search.shared.neighbors import Neighbors
    from pipelines.search.shared.svm import SVCs, SVRs

    kinds: Sequence[SharedFit] = (
        Neighbors(), Ridges(), Forests(), Bags(), Boosting(), HistogramBoosting(), Lassos(),
        Logistic(), LinearSVCs(), SVCs(), SVRs(),
    )  # fmt: skip
    return {one: kind for kind in kinds for one in kind.types}
