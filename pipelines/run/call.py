"""A command called from Python: its options are keywords, its answer is the run's folder."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from pipelines.errors import InputError, flag_of
from pipelines.run.job import Job, carry_out_words
from pipelines.run_folder.reading import latest_run


def call(job: type[Job[Any]], options: Mapping[str, Any]) -> Path:
    """Carry out a run as the command does, and give its folder.

    Parameters
    ----------
    job : class of the command's job
    options : value by name, as the command's flags are called: ``n_c=12`` for ``--n-c 12``

    Raises
    ------
    InputError, ClusterError
        Nothing was begun; the message says what to put right.
    RunStopped
        The run ended early; what was computed is in its folder.
    """
    try:
        carry_out_words(job, words_of(job.kind_of_options, options))
    except InputError as error:
        names = {field.name for field in dataclasses.fields(job.kind_of_options)}
        raise InputError(_as_keywords(str(error), names)) from None
    given = options.get("resume") or options.get("results")
    return Path(given) if given else latest_run(job.command)


def words_of(kind: type[Any], options: Mapping[str, Any]) -> list[str]:
    """Options as they are typed.

    Raises
    ------
    InputError
        There is no such option.
    """
    names = {field.name for field in dataclasses.fields(kind)}
    words: list[str] = []
    for name, value in options.items():
        if name not in names:
            raise InputError(f"{name} is not an option of this command; help(run) names its flags")
        if value is None or value is False:
            continue
        several = value if isinstance(value, (tuple, list)) else (value,)
        words += [flag_of(name), *([] if value is True else map(str, several))]
    return words


def _as_keywords(message: str, names: Collection[str]) -> str:
    """A message with the names of options in the place of their flags."""
    for name in sorted(names, key=len, reverse=True):
        message = re.sub(rf"{flag_of(name)}(?![\w-])", name, message)
    return message
