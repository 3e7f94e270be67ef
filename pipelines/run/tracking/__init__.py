"""Loggers, which log a run to a tracker beside its folder; each is one file.

A logger of another package is a subclass of ``RunLogger`` that is found by its entry point in the
group ``pleasingly.loggers``.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from pipelines.console import Echo
from pipelines.errors import InputError, flag_of
from pipelines.extensions import Extensions
from pipelines.run.tracking.options import is_address

if TYPE_CHECKING:
    from pipelines.run.groups import RunOptions
    from pipelines.run.tracking.logger import RunLogger

LOGGERS = Extensions(
    "pleasingly.loggers",
    f"{__name__}.logger:RunLogger",
    "log_to",
    {
        "mlflow": f"{__name__}.mlflow:MlflowLogger",
        "wandb": f"{__name__}.wandb:WandbLogger",
        "tensorboard": f"{__name__}.tensorboard:TensorBoardLogger",
    },
)


def loggers_of(
    options: RunOptions, typed_names: Collection[str], echo: Echo
) -> dict[str, RunLogger]:
    """The loggers of a run, by their names and targets; each checks what it needs.

    Parameters
    ----------
    options : RunOptions
    typed_names : collection of str
        Options that were typed in this session. Those of a resumed run that were not are from its
        record: they do not keep the run from going on, and a recorded address, which may be
        anyone's, must be typed again.
    echo : function of one line of text

    Returns
    -------
    dict of str to RunLogger

    Raises
    ------
    InputError
        A logger that was asked for cannot log.
    """
    loggers: dict[str, RunLogger] = {}
    for option, key in options.targets():
        name, _, target = key.partition(":")
        is_recorded = bool(options.resume) and option not in typed_names
        if is_recorded and is_address(target):
            flag = f"{flag_of(option)} {target if option == 'mlflow' else key}"
            echo(f"note       this session is not logged to {target}, as the run was: add {flag}")
            continue
        try:
            loggers[key] = LOGGERS.load(name)(target)
        except InputError as error:
            if not is_recorded:
                raise
            echo(f"warning    this session is not logged: {error.flagged()}")
    return loggers
