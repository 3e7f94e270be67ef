"""Options that say where a run is logged beside its folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from pipelines.errors import InputError, opt
from pipelines.run.cluster_options import session_option

OF_FOLDERS = ("mlflow", "tensorboard")  # loggers whose target may be one


def is_address(target: str) -> bool:
    """Whether a target is an address or the name of a service, rather than a folder."""
    return "://" in target or target.partition(":")[0] in ("databricks", "uc")


def _absolute(target: str) -> str:
    if is_address(target):
        return target.removeprefix("file://") if target.startswith("file:///") else target
    return os.path.abspath(os.path.expanduser(target))


def _absolute_target(text: str) -> str:
    """A logger and its target as typed; a target that is a folder is made absolute."""
    name, _, target = text.partition(":")
    return f"{name}:{_absolute(target)}" if target and name in OF_FOLDERS else text


@dataclass(frozen=True)
class TrackingOptions:
    """Options on the loggers of a run."""

    group: ClassVar[str] = "run"

    mlflow: str | None = session_option(
        None,
        "log the run to MLflow: to a tracking server, a database, or a folder; short for "
        "--log-to mlflow:URI",
        parse=_absolute,
        metavar="URI|DIR",
    )
    mlflow_candidates: bool = session_option(
        False, "log each candidate to MLflow, too, as a child of the run, once that is finished"
    )
    log_to: tuple[str, ...] = session_option(
        (),
        "log the run while it goes on, to one or more of mlflow[:URI|DIR], wandb[:PROJECT], "
        "tensorboard[:DIR], or a logger of another package",
        nargs="+",
        parse=_absolute_target,
        metavar="NAME[:TARGET]",
    )

    def targets(self) -> Iterator[tuple[str, str]]:
        """Pairs of an option and the logger that it names with its target, as ``mlflow:DIR``."""
        if self.mlflow is not None:
            yield "mlflow", f"mlflow:{self.mlflow}"
        for key in self.log_to:
            yield "log_to", key

    def check(self) -> None:
        """Refuse to log candidates to MLflow if the run is not logged there."""
        names = {key.partition(":")[0] for _, key in self.targets()}
        if self.mlflow_candidates and "mlflow" not in names:
            raise InputError(
                f"{opt('mlflow_candidates')} must go with a run that is logged to MLflow; add "
                f"{opt('mlflow')}, or leave it out"
            )
