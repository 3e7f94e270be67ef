"""Options of cross-validation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, cast

from pipelines.data.dataset import Task
from pipelines.errors import InputError, opt
from pipelines.run.options import at_least, option

number = partial(option, parse=int, metavar="N")


def _rope(value: float) -> str | None:
    return None if 0 <= value < 1e6 else "at least 0"


@dataclass(frozen=True)
class TaskOptions:
    """Options that choose the target and the task."""

    group: ClassVar[str] = "data"

    task: str = option(
        "auto", "what is predicted: classes or numbers; auto: what the target looks like",
        choices=("auto", "classification", "regression"),
    )  # fmt: skip

    @property
    def task_asked(self) -> Task | None:
        """The task, or None for what the target looks like."""
        return None if self.task == "auto" else cast("Task", self.task)


@dataclass(frozen=True)
class CandidateOptions:
    """Options that choose the estimators and their parameter grids."""

    group: ClassVar[str] = "grid"

    estimator: tuple[str, ...] = option(
        (), "an estimator by its short name or import path; more than one are compared",
        nargs="+", metavar="NAME",
    )  # fmt: skip
    estimators: bool = option(False, "list the short names and end", changes_results=False)
    param: tuple[str, ...] = option(
        (), "values of a parameter of the last named estimator, with commas between them; every "
        "combination is a candidate",
        nargs="+", metavar="NAME=VALUE,VALUE",
    )  # fmt: skip
    grid: str | None = option(
        None, "a YAML file of grids: estimator: {parameter: [value, ...]}",
        metavar="FILE.yaml", path="file",
    )  # fmt: skip
    preprocess: str = option(
        "auto", "fitted within each training fold: auto (scaling for those that want it, one-hot "
        "columns for text, imputation), none, or a YAML file of steps",
        metavar="auto|none|FILE", path="file",
    )  # fmt: skip
    scoring: tuple[str, ...] = option(
        (), "scorers of scikit-learn; the best candidate is chosen by the first (default: "
        "accuracy, or r2)",
        nargs="+", metavar="NAME",
    )  # fmt: skip


@dataclass(frozen=True)
class SplitOptions:
    """Options that choose the splits."""

    group: ClassVar[str] = "validation"

    cv: str = option(
        "auto", "auto, stratified, kfold, repeated, group, time, or FILE.py:function of X, y and "
        "groups",
        metavar="KIND",
    )  # fmt: skip
    repeats: int = number(3, "repeats, with --cv repeated", check=at_least(2))
    groups: str | None = option(
        None, "column whose equal values stay together; it is no feature", metavar="COLUMN"
    )
    nested: int | None = number(
        None, "outer folds around the search: an estimate for the chosen candidate that the choice "
        "has not made too good",
        check=at_least(2),
    )  # fmt: skip

    def check(self) -> None:
        """Check options against each other.

        Raises
        ------
        InputError
        """
        if self.cv == "group" and self.groups is None:
            raise InputError(
                f"{opt('groups')} must name the column of groups for {opt('cv', 'group')}, it was "
                f"not given; name one"
            )
        if self.groups is not None and self.cv not in ("group",) and ":" not in self.cv:
            raise InputError(
                f"{opt('groups')} is for {opt('cv', 'group')} and functions of your own, got "
                f"{opt('cv', self.cv)}; use {opt('cv', 'group')}"
            )
        super_check = getattr(super(), "check", None)
        if super_check is not None:
            super_check()


@dataclass(frozen=True)
class ComparisonOptions:
    """Options that choose how algorithms are fitted and compared."""

    group: ClassVar[str] = "validation"

    learning_curve: bool = option(
        False, "fit the best candidate of each algorithm on shares of the training rows, too"
    )
    rope: float = option(
        0.01, "a difference of scores up to this is none in practice", parse=float, check=_rope,
        metavar="WIDTH",
    )  # fmt: skip
    inner_jobs: str = option(
        "worker", "where an estimator's own parallel work runs: in its worker, or dask: on all",
        choices=("worker", "dask"), changes_results=False,
    )  # fmt: skip
    intel: bool = option(
        False, "use scikit-learn-intelex where it has the estimator", changes_results=False
    )
