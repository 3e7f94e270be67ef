"""Loggers of runs: where a run is logged beside its folder; one file each.

A logger of another package is a subclass of ``RunLogger`` that is found by its entry point in the
group ``pleasingly.loggers``; the names of those here go before it.
"""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from pipelines.console import Echo
from pipelines.errors import InputError, error_line, flag_of, nearest, opt
from pipelines.run.tracking.options import is_address

if TYPE_CHECKING:
    from pipelines.run.groups import RunOptions
    from pipelines.run.tracking.logger import RunLogger

ENTRY_POINTS = "pleasingly.loggers"
CLASSES = {
    "mlflow": "mlflow:MlflowLogger",
    "wandb": "wandb:WandbLogger",
    "tensorboard": "tensorboard:TensorBoardLogger",
}


def logger_class(name: str) -> type[RunLogger]:
    """The class of a logger by its name, one of these or of another package's."""
    if name in CLASSES:
        module, _, kind = CLASSES[name].partition(":")
        logger: type[RunLogger] = getattr(import_module(f"{__name__}.{module}"), kind)
        return logger
    entries = entry_points(group=ENTRY_POINTS)
    places = {entry.value: entry for entry in entries if entry.name == name}
    if len(places) != 1:
        choices = (*CLASSES, *sorted(entries.names - CLASSES.keys()))
        way_out = nearest(name, choices, "install the package that has it")
        rule = f"must name one of {', '.join(choices)}, got {name!r}; {way_out}"
        if places:
            rule = (
                f"must be of one package, got {name!r}, which is {' and '.join(sorted(places))}; "
                f"uninstall one of them"
            )
        raise InputError(f"{opt('log_to')} {rule}")
    return _loaded(places.popitem()[1])


def _loaded(entry: Any) -> type[RunLogger]:
    """The class that an entry point names."""
    from pipelines.run.tracking.logger import RunLogger

    must = f"{opt('log_to', entry.name)} must be a subclass of {RunLogger.__module__}.RunLogger"
    try:
        logger = entry.load()
    except Exception as error:  # the code of a package
        raise InputError(
            f"{must}, got {entry.value}, which cannot be imported ({error_line(error)}); "
            f"mend or uninstall its package"
        ) from error
    if not (isinstance(logger, type) and issubclass(logger, RunLogger)):
        raise InputError(f"{must}, got {entry.value}; mend or uninstall its package")
    return logger


def loggers_of(options: RunOptions, typed: Collection[str], echo: Echo) -> dict[str, RunLogger]:
    """Make the loggers of a run, by their names and targets, which check what they need.

    Parameters
    ----------
    typed : options that were given to this session. Of a resumed run the others are recorded: they
        cannot keep it from going on, and an address, which may be anyone's, must be given again.

    Raises
    ------
    InputError
        A logger that was asked for cannot log.
    """
    loggers: dict[str, RunLogger] = {}
    for option, key in options.targets():
        name, _, target = key.partition(":")
        is_recorded = bool(options.resume) and option not in typed
        if is_recorded and is_address(target):
            again = f"{flag_of(option)} {target if option == 'mlflow' else key}"
            echo(f"note       this session is not logged to {target}, as the run was: add {again}")
            continue
        try:
            loggers[key] = logger_class(name)(target)
        except InputError as error:
            if not is_recorded:
                raise
            echo(f"warning    this session is not logged: {error.flagged()}")
    return loggers
