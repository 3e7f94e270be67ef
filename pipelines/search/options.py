"""Options of every command that searches candidates."""

from __future__ import annotations

import math
import re
from argparse import ArgumentTypeError
from dataclasses import dataclass, fields
from typing import ClassVar, cast

from pipelines.data.dataset import Task
from pipelines.data.user_code import absolute_name, named_code
from pipelines.errors import InputError, opt
from pipelines.run.groups import FoldOptions, OwnDataOptions, RecyclingOptions, TestOptions
from pipelines.run.options import at_least, number, option, real, rule
from pipelines.search.strategies import DRAWING, STRATEGIES


@dataclass(frozen=True)
class FeatureOptions:
    """Options for the features that replace images."""

    group: ClassVar[str] = "data"

    features: str | None = option(
        None,
        "features in place of pixels: hog (histograms of oriented gradients), the penultimate "
        "layer of a network of torchvision.models such as resnet18, or a file with a row for each "
        "image",
        metavar="hog|NETWORK|FILE.npy",
        path="data",
    )
    weights: str | None = option(
        None,
        "weights file of that network, or random (default: those that torch has downloaded; "
        "nothing is downloaded)",
        metavar="FILE|random",
        path="data",
    )
    feature_size: int | None = number(
        None,
        "resize images to N x N pixels for that network (default: as it was trained)",
        rule=at_least(16, 4096),
    )

    @property
    def feature_file(self) -> str | None:
        """The file of precomputed features, if one is given."""
        return self.features if (self.features or "").endswith(".npy") else None


@dataclass(frozen=True)
class TaskOptions:
    """Options that choose the target and the task."""

    group: ClassVar[str] = "data"

    task: str = option(
        "auto",
        "classification or regression; auto: by the values of the target",
        choices=("auto", "classification", "regression"),
    )

    @property
    def task_asked(self) -> Task | None:
        """The task that was asked for; None to infer it from the target."""
        return None if self.task == "auto" else cast("Task", self.task)


@dataclass(frozen=True)
class SplitOptions:
    """Options that choose the splits."""

    group: ClassVar[str] = "validation"

    cv: str = option(
        "auto",
        "auto, stratified, kfold, repeated, group, time, or FILE.py:function of X, y and groups",
        metavar="KIND",
        parse=absolute_name,
        code=named_code,
    )
    repeats: int = number(3, "repeats, with --cv repeated", rule=at_least(2))
    groups: str | None = option(
        None, "group column for --cv group; not used as a feature", metavar="COLUMN"
    )


@dataclass(frozen=True)
class NestedOptions:
    """The option for nested cross-validation."""

    group: ClassVar[str] = "validation"

    nested: int | None = number(
        None,
        "outer folds of a nested cross-validation, for an unbiased estimate of the choice",
        rule=at_least(2),
    )


def parse_duration(text: str) -> float:
    """Parse a duration such as ``90s``, ``10m``, ``1.5h``, ``1h30m`` or ``90``; in seconds.

    Raises
    ------
    ArgumentTypeError
        The text is not a duration.
    """
    number = r"(\d+\.?\d*|\.\d+)"
    parts = re.fullmatch(f"(?:{number}h)?(?:{number}m)?(?:{number}s?)?", text.strip().lower())
    if not text.strip() or parts is None:
        raise ArgumentTypeError(f"must be a time such as 90s, 10m or 1h30m, got {text!r}")
    return sum(float(n) * unit for n, unit in zip(parts.groups("0"), (3600, 60, 1), strict=True))


@dataclass(frozen=True)
class BudgetOptions:
    """The option that limits the time of a run."""

    group: ClassVar[str] = "strategy"

    time_budget: float | None = option(
        None,
        "stop after this time with the best so far: 90s, 10m or 1.5h; a plain number is seconds",
        parse=parse_duration,
        rule=rule("at least 1 second", lambda seconds: 1 <= seconds < math.inf),
        metavar="TIME",
        changes_results=False,
    )


@dataclass(frozen=True)
class StrategyOptions(BudgetOptions):
    """Options that choose which candidates are tried, on which splits, and for how long."""

    group: ClassVar[str] = "strategy"

    strategy: str = option(
        "grid",
        "which candidates are tried: grid, all on every fold; race drops those clearly behind as "
        "folds finish; random draws --n-iter candidates; halving gives the best more rows, round "
        "by round; tpe draws where earlier candidates did well",
        choices=STRATEGIES.names(),
    )
    race_margin: float = real(
        3.0,
        "with --strategy race: standard errors behind the best at which a candidate is dropped",
        rule=at_least(1, 100),
        metavar="N",
    )
    n_iter: int | None = number(
        None, "with --strategy random or tpe: candidates to draw for each estimator (default: 60)"
    )
    sampler: str = option(
        "auto",
        "how --strategy random draws: plain, independently; sobol (for SVMs), evenly, with several "
        "C for each of a few gamma, which share work",
        choices=("auto", "plain", "sobol"),
    )

    def check(self) -> None:
        """Refuse options that belong to another strategy.

        Raises
        ------
        InputError
            An option is given that the chosen strategy does not use.
        """
        strategies_of = {"race_margin": ("race",), "n_iter": DRAWING, "sampler": ("random",)}
        for name, strategies in strategies_of.items():
            value, default = getattr(self, name), type(self).__dataclass_fields__[name].default
            if value != default and self.strategy not in strategies:
                names = " or ".join(opt("strategy", strategy) for strategy in strategies)
                raise InputError(
                    f"{opt(name)} goes with {names}, got {value} beside "
                    f"{opt('strategy', self.strategy)}; leave one of them out"
                )
        check = getattr(super(), "check", None)
        if check is not None:
            check()


OF_STRATEGIES = frozenset(field.name for field in fields(StrategyOptions))


@dataclass(frozen=True)
class ExtendOptions:
    """The option to reuse fits of another run."""

    group: ClassVar[str] = "validation"

    extend: str | None = option(
        None,
        "folder of a run on the same rows with other candidates, whose fits are reused",
        metavar="DIR",
        path="folder",
        changes_results=False,
    )


@dataclass(frozen=True)
class SearchOptions(
    FeatureOptions,
    StrategyOptions,
    ExtendOptions,
    NestedOptions,
    SplitOptions,
    FoldOptions,
    RecyclingOptions,
    TestOptions,
    TaskOptions,
    OwnDataOptions,
):
    """Options of every search, except those of its candidates."""

    def check(self) -> None:
        """Check options against each other.

        Raises
        ------
        InputError
            Two options contradict each other, or one lacks another.
        """
        for name in ("weights", "feature_size"):
            if getattr(self, name) is not None and (self.features is None or self.feature_file):
                raise InputError(
                    f"{opt(name)} is for {opt('features')} of a network; leave it out, or name one"
                )
        if self.strategy == "tpe" and self.nested is not None:
            raise InputError(
                f"{opt('nested')} goes with candidates that are known before, got "
                f"{opt('strategy', 'tpe')}, which draws them as it goes; use "
                f"{opt('strategy', 'random')}, or leave one of them out"
            )
        if self.cv == "group" and self.groups is None:
            raise InputError(
                f"{opt('groups')} must name the column of groups for {opt('cv', 'group')}, it was "
                f"not given; name one"
            )
        if self.groups is not None and self.cv != "group" and ":" not in self.cv:
            raise InputError(
                f"{opt('groups')} is for {opt('cv', 'group')} and functions of your own, got "
                f"{opt('cv', self.cv)}; use {opt('cv', 'group')}"
            )
        super().check()
