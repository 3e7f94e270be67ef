"""Families of estimators that share work, one file each, and the table of them."""

from __future__ import annotations

from functools import cache
from typing import Any

from pipelines.validation.families.base import Family
from pipelines.validation.families.machines import Machines, Tubes
from pipelines.validation.families.neighbours import Neighbours
from pipelines.validation.families.paths import Lassos, Logistic
from pipelines.validation.families.prefixes import Bags, Boosting, Forests, HistogramBoosting
from pipelines.validation.families.ridge import Ridges

__all__ = ["FAMILIES", "Family", "family_of"]

FAMILIES: tuple[Family, ...] = (
    Neighbours(), Ridges(), Forests(), Bags(), Boosting(), HistogramBoosting(), Lassos(),
    Logistic(), Machines(), Tubes(),
)  # fmt: skip


def family_of(estimator: Any) -> Family | None:
    """The family whose classes the estimator's own is one of."""
    return _by_type().get(type(estimator))


@cache
def _by_type() -> dict[type, Family]:
    return {kind: family for family in FAMILIES for kind in family.types}
