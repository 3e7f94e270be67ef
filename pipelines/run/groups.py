"""Groups of options: the dataclass of a command's own options inherits from those it needs.

``group`` is the heading under which ``--help`` shows the options that a dataclass declares; those
of a dataclass without it stand under the heading of the command.
"""

from __future__ import annotations

import codecs
import dataclasses
import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

from pipelines.data.folds import RARE
from pipelines.data.image_folder import UNREADABLE, ImageReading
from pipelines.data.load import DATASETS
from pipelines.data.tables import MISSING, Reading
from pipelines.data.user_code import is_known_class
from pipelines.errors import InputError, flag_of, opt, program
from pipelines.run.cluster_options import PlaceOptions, session_option
from pipelines.run.options import (
    as_text,
    at_least,
    check_options,
    fraction,
    list_option,
    number,
    option,
    rule,
)
from pipelines.run.tracking.options import TrackingOptions, is_address

Chosen = TypeVar("Chosen", bound="RunOptions")

columns = partial(list_option, None, metavar="COLUMN")


def _is_encoding(name: str) -> bool:
    try:
        return codecs.lookup(name)._is_text_encoding
    except LookupError:
        return False


encoding_option = partial(
    option,
    None,
    "encoding of a text file, such as cp1252 (default: UTF-8, or detected from its bytes)",
    rule=rule("an encoding that Python knows", _is_encoding),
    metavar="NAME",
)


def _named_or_path(text: str) -> str:
    """A data set's name, or an absolute path, so that a run can be resumed from any folder."""
    path = Path(text).expanduser()
    return str(path.absolute()) if text not in DATASETS and path.exists() else text


@dataclass(frozen=True)
class OwnDataOptions:
    """Options that choose the data set, and how a user's table or images are read."""

    group: ClassVar[str] = "data"

    dataset: str = option(
        "digits",
        f"{', '.join(DATASETS)}; a table of your own: PATH.csv, .tsv, .data, .txt, .parquet or "
        ".npz; or a folder with a subfolder of images for each class",
        metavar="NAME|PATH",
        parse=_named_or_path,
    )
    data_dir: str = session_option(
        "data",
        "folder of the data sets; missing ones are downloaded to it",
        metavar="DIR",
        path="folder",
    )
    target: str | None = option(
        None,
        "target column, by name or by number from 1 (of an .npz file: name of the array); by "
        "default the last, if it is text or has few values",
        metavar="COLUMN",
    )
    limit: int | None = number(None, "use a stratified subset of N training rows", rule=at_least(2))
    image_size: int | None = number(
        None,
        "resize the shorter side of a folder's images to N pixels and crop the centre; needed if "
        "their sizes differ",
        rule=at_least(4, 4096),
    )
    gray: bool = option(False, "convert the images of a folder to greyscale")
    unreadable: str = option(
        "refuse",
        "files of a folder that cannot be decoded: refuse the folder, or skip them",
        choices=UNREADABLE,
    )
    missing: str = option(
        "impute",
        "missing cells (?, NA, empty): impute within each fold, with an indicator column; drop "
        "rows that have one; or refuse the table",
        choices=MISSING,
    )
    rare: str = option(
        "refuse",
        "classes with too few rows for the test and the folds: refuse the table, drop "
        "them, or merge them into one",
        choices=RARE,
    )
    header: bool = option(False, "the first line is a header, whatever it looks like")
    no_header: bool = option(False, "the first line of the file is a row, whatever it looks like")
    number: tuple[str, ...] | None = columns(
        "columns to treat as numeric, such as a year called id"
    )
    category: tuple[str, ...] | None = columns(
        "columns to treat as categorical: numeric codes, or text with more than 50 levels"
    )
    leave_out: tuple[str, ...] | None = columns("columns to ignore")
    encoding: str | None = encoding_option()
    missing_values: tuple[str, ...] | None = list_option(
        None,
        "words that mark a missing cell, separated by commas, besides ?, NA and empty cells",
        metavar="WORDS",
    )
    no_missing_values: bool = option(
        False, "only empty cells are missing: NA is a level or a class"
    )

    def as_read(self) -> dict[str, Any]:
        """These options as the keywords of ``load_dataset``, beside the name of the data set."""
        names = [field.name for field in dataclasses.fields(Reading)]
        reading = Reading(**{name: value for name in names if (value := getattr(self, name))})
        words = tuple(chain.from_iterable(word.split(",") for word in reading.missing_values))
        reading = dataclasses.replace(reading, missing_values=words)
        return {
            "data_dir": self.data_dir,
            "limit": self.limit,
            "target": self.target,
            "reading": reading,
            "rare": self.rare,
            "images": ImageReading(self.image_size, self.gray, cast("Any", self.unreadable)),
            "show_progress": not getattr(self, "quiet", False),
        }


@dataclass(frozen=True)
class TestOptions:
    """The size of the test set, for data that have none of their own."""

    group: ClassVar[str] = "data"

    test_size: float = fraction(0.2, "fraction held out if the data set has no test split")


@dataclass(frozen=True)
class FoldOptions:
    """The number of folds of the cross-validation."""

    folds: int = number(5, "folds of the cross-validation", rule=at_least(2))


@dataclass(frozen=True)
class RunOptions(TrackingOptions, PlaceOptions):
    """Options of every command: a cluster, one seed, and a run folder."""

    group: ClassVar[str] = "run"

    config: str | None = session_option(
        None,
        "options from this file, of YAML: NAME: VALUE, paths as if typed here; or from run.json of "
        "a run, which starts anew. What is typed wins",
        metavar="FILE",
        python=False,
    )
    seed: int = number(0, "random seed of the run", rule=at_least(0, 2**32 - 1))
    results: str | None = session_option(
        None, "folder of the run (default: results/COMMAND-TIME)", metavar="DIR"
    )
    resume: str | None = session_option(
        None, "resume the run in this folder; only what is missing is computed", metavar="DIR"
    )
    accept_changed: bool = session_option(
        False,
        "resume or extend a run although files, code or packages that affect results have "
        "changed since, and record that",
    )
    dry_run: bool = session_option(False, "show what would run, and stop")
    pilot: str | None = session_option(
        None,
        "folder of a smaller run, from which --dry-run estimates how many workers to ask for, the "
        "run time and the walltime of their jobs",
        metavar="DIR",
        path="folder",
    )
    quiet: bool = session_option(False, "print the run's folder at the end and nothing else")

    def check(self) -> None:
        """Check options against each other."""
        if self.results is not None and self.resume is not None:
            raise InputError(
                "--results and --resume cannot be combined; --resume already names the folder"
            )
        if self.accept_changed and self.resume is None and getattr(self, "extend", None) is None:
            raise InputError(
                f"{opt('accept_changed')} is for a run that is resumed or extended, and none was "
                "named; leave it out"
            )
        if self.pilot is not None and not self.dry_run:
            raise InputError("--pilot needs --dry-run; add --dry-run, or remove --pilot")
        super().check()


def _tasks_or_word(text: str) -> int | str:
    """A number of tasks as an int; any word as it is, for the rule to check."""
    return int(text) if text.removeprefix("-").isdecimal() else text


@dataclass(frozen=True)
class RecyclingOptions(RunOptions):
    """The option on when worker processes are replaced, for commands of independent fits."""

    group: ClassVar[str] = "cluster"

    tasks_per_worker: int | str = session_option(
        "auto",
        "restart a worker's process after about N tasks, which frees the memory it holds; auto: on "
        "GPUs, once the device memory held after a task has grown by more than 20 % since the "
        "tenth; or never",
        parse=_tasks_or_word,
        rule=rule(
            "auto, never or a number of at least 1",
            lambda value: value in ("auto", "never") if isinstance(value, str) else value >= 1,
        ),
        metavar="N|auto|never",
    )

    def check(self) -> None:
        """Refuse a number of tasks where the workers are threads, which cannot be replaced."""
        if isinstance(self.tasks_per_worker, int) and self.cluster == "threads":
            raise InputError(
                f"{opt('tasks_per_worker')} replaces processes, and the workers of "
                f"{opt('cluster', 'threads')} are threads of one, got {self.tasks_per_worker}; use "
                f"{opt('cluster', 'local')}, or leave it out"
            )
        super().check()


def options_of_resumed_run(
    options_class: type[Chosen],
    recorded: dict[str, Any],
    typed_options: dict[str, Any],
    folder: Path,
    by_content: bool = False,
) -> Chosen:
    """The recorded options of a run, with those typed now that only say how to carry it out.

    Parameters
    ----------
    options_class : type
        The dataclass whose fields are the options of the command.
    recorded : dict
        The options in ``run.json``.
    typed_options : dict
        The options on the command line of this session.
    folder : Path
        The folder of the run, for messages.
    by_content : bool, default False
        Whether files and code may have moved, as their content is compared.

    Returns
    -------
    instance of ``options_class``

    Raises
    ------
    InputError
        The recorded options are damaged; an option that changes results was typed with another
        value; or an option that would run code was not typed again, as the folder may be from
        anyone.
    """
    from pydantic import TypeAdapter, ValidationError

    session_options = {"results", "resume", "accept_changed", "dry_run", "quiet"}
    if "cluster" in typed_options:  # these options were meant for another cluster
        session_options |= {
            "workers",
            "adaptive",
            "profile",
            "rmm_pool",
            "no_tls",
            "tasks_per_worker",
        }
    if typed_options.get("device") == "cpu":
        session_options |= {"rmm_pool"}
    if "workers" in typed_options or "adaptive" in typed_options:  # one replaces the other
        session_options |= {"workers", "adaptive"}
    fields = {field.name: field.metadata for field in dataclasses.fields(options_class)}
    recorded_values = {
        name: value
        for name, value in recorded.items()
        if name in fields and name not in session_options
    }
    try:
        options = TypeAdapter(options_class).validate_json(json.dumps(recorded_values), strict=True)
        check_options(options)
    except (ValidationError, InputError) as error:
        problem = str(error)
        if isinstance(error, ValidationError):
            first_error = error.errors()[0]
            problem = f"{flag_of(str(first_error['loc'][0]))}: {first_error['msg']}"
        raise InputError(
            f"--resume must be a run whose options are whole, got {folder} ({problem}); "
            "start a new run with --results"
        ) from None
    for name, value in typed_options.items():
        old_value = getattr(options, name)
        same_file = by_content and is_moved(fields[name], old_value, value)
        if fields[name]["changes_results"] and value != old_value and not same_file:
            between = " " if fields[name]["nargs"] else ","
            raise InputError(
                f"{flag_of(name)} must stay {as_text(old_value, between)} when resuming {folder}, "
                f"got {as_text(value, between)}; remove it, or start a new run with --results"
            )
    unnamed_code = {
        name: words
        for name in fields
        if name not in typed_options and (words := _code_words(options, name))
    }
    if unnamed_code:
        flags, code_words = (
            ", ".join(map(flag_of, unnamed_code)),
            shlex.join(chain(*unnamed_code.values())),
        )
        verb = "names" if len(unnamed_code) == 1 else "name"
        raise InputError(
            f"{flags} of the run in {folder} {verb} code, which runs only if you name it, too: "
            f"look at it, then resume with {code_words}"
        )
    return dataclasses.replace(options, **typed_options)


def is_moved(metadata: Mapping[str, Any], old_value: Any, new_value: Any) -> bool:
    """Whether two values of an option name files that are compared by content, not by path."""
    if not isinstance(old_value, str) or not isinstance(new_value, str):
        return False
    if metadata["path"] == "file":
        return os.path.isabs(old_value) and os.path.isfile(new_value)
    (old_file, _, old_name), (new_file, _, new_name) = (
        old_value.rpartition(":"),
        new_value.rpartition(":"),
    )
    is_file = metadata["code"] is not None and old_file.endswith(".py") and new_file.endswith(".py")
    return is_file and (Path(old_file).name, old_name) == (Path(new_file).name, new_name)


def _code_words(options: RunOptions, name: str) -> list[str]:
    """The words of an option whose value would run code that is not this program's; else none."""
    metadata = {field.name: field.metadata for field in dataclasses.fields(options)}[name]
    value = getattr(options, name)
    if (
        metadata["code"] is None
        or value is None
        or all(map(is_known_class, metadata["code"](value)))
    ):
        return []
    return [flag_of(name), *map(str, value if isinstance(value, tuple) else [value])]


def resume_words(command: str, path: Path, options: RunOptions) -> str:
    """The command that resumes a run, with the options that must be typed again."""
    fields = dataclasses.fields(options)
    words = [word for field in fields for word in _code_words(options, field.name)]
    for name, key in options.targets():
        if is_address(target := key.partition(":")[2]):
            words += [flag_of(name), target if name == "mlflow" else key]
    return f"{program(command)} {shlex.join(['--resume', str(path), *words])}"


def deciding_results(options: RunOptions) -> dict[str, Any]:
    """The options that change results, without those on how a run is carried out."""
    return {
        field.name: getattr(options, field.name)
        for field in dataclasses.fields(options)
        if field.metadata["changes_results"]
    }
