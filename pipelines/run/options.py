"""Options of a command: declared once, as a field of a dataclass.

The flag, its parsing, the help, the check and the place in ``run.json`` all
follow from the field.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn, TypeVar, get_type_hints

from pipelines.data.errors import InputError

Check = Callable[[Any], str | None]
Chosen = TypeVar("Chosen", bound="RunOptions")


def option(
    default: Any,
    help: str,
    *,
    parse: Callable[[str], Any] = str,
    check: Check | None = None,
    choices: Sequence[str] | None = None,
    metavar: str | tuple[str, ...] | None = None,
    nargs: int | str | None = None,
    changes_results: bool = True,
    path: str | None = None,
) -> Any:
    """A dataclass field that is a command-line option.

    ``check`` returns the rule a value breaks ("at least 2"), or None. A ``path`` is
    ``"folder"``, or ``"file"`` for what may be the name of one: it is made
    absolute, so that a run can be resumed from anywhere. With ``nargs="+"`` an option takes
    one value or more, and may be given more than once.
    ``changes_results`` is False for what only decides where and how a run is
    carried out: such an option may differ when a run is resumed.
    """
    metadata = {
        "help": help, "parse": parse, "check": check, "choices": choices,
        "metavar": metavar, "nargs": nargs, "changes_results": changes_results, "path": path,
    }  # fmt: skip
    return dataclasses.field(default=default, metadata=metadata)


def at_least(minimum: float) -> Check:
    """A check that a number is not smaller than ``minimum``."""
    return lambda value: None if value >= minimum else f"at least {minimum}"


def inside_unit_interval(value: float) -> str | None:
    """A check that a number lies strictly between 0 and 1."""
    return None if 0 < value < 1 else "between 0 and 1"


def increasing_log10(bounds: tuple[float, float]) -> str | None:
    """A check of two log10 bounds: finite, in order, and powers that a double can hold."""
    low, high = bounds
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        return "two finite numbers, the smaller first"
    return None if low >= -300 and high <= 300 else "between -300 and 300"


def flag_of(name: str) -> str:
    """The command-line flag of a field: ``n_c`` -> ``--n-c``."""
    return "--" + name.replace("_", "-")


def _seed(value: int) -> str | None:
    return None if 0 <= value < 2**32 else "from 0 to 4294967295"


def finite(value: float) -> str | None:
    """A check that a number is neither infinite nor NaN."""
    return None if math.isfinite(value) else "a finite number"


@dataclass(frozen=True)
class RunOptions:
    """What every command shares."""

    dataset: str = option(
        "digits",
        "digits, mnist, fashion-mnist, or a file of your own: PATH.csv, .parquet or .npz",
        metavar="NAME|PATH", path="file",
    )  # fmt: skip
    data_dir: str = option(
        "data", "folder that holds, or receives, the data sets", metavar="DIR",
        changes_results=False, path="folder",
    )  # fmt: skip
    target: str | None = option(
        None, "column of the file to predict (an .npz file: name of the array)", metavar="COLUMN"
    )
    test_size: float = option(
        0.2, "share kept for the test, where a data set has no test set of its own",
        parse=float, check=inside_unit_interval, metavar="SHARE",
    )  # fmt: skip
    limit: int | None = option(
        None, "use a stratified subset of N training rows",
        parse=int, check=at_least(2), metavar="N",
    )  # fmt: skip
    seed: int = option(0, "the one seed of the run", parse=int, check=_seed, metavar="N")
    cluster: str = option(
        "auto", "auto, local, cuda, slurm, pbs, sge, mpi, srun, or the address of a running "
        "scheduler: tls://host:port",
        metavar="KIND", changes_results=False,
    )  # fmt: skip
    workers: int | None = option(
        None, "number of workers (default: one for each GPU, else for each core)",
        parse=int, check=at_least(1), metavar="N", changes_results=False,
    )  # fmt: skip
    adaptive: tuple[int, int] | None = option(
        None, "in place of --workers: fewest and most jobs to have in a queue",
        parse=int, nargs=2, metavar=("MIN", "MAX"), changes_results=False,
    )  # fmt: skip
    profile: str | None = option(
        None, "what a site's queue wants to be told: a name such as generic-slurm, or a YAML file",
        metavar="NAME|FILE", changes_results=False,
    )  # fmt: skip
    no_tls: bool = option(
        False, "leave the cluster open to whoever reaches its ports", changes_results=False
    )
    device: str = option(
        "auto", "where a worker computes: auto takes the GPU if the workers have one",
        choices=("auto", "cpu", "gpu"), changes_results=False,
    )  # fmt: skip
    dashboard: str | None = option(
        None, "where Dask's dashboard listens: a port of this host, host:port, or off",
        metavar="PORT|off", changes_results=False,
    )  # fmt: skip
    performance_report: bool = option(
        False, "keep Dask's own page of the run, performance.html, in its folder",
        changes_results=False,
    )  # fmt: skip
    results: str | None = option(
        None, "folder of the run (default: results/COMMAND-TIME)", metavar="DIR",
        changes_results=False,
    )  # fmt: skip
    resume: str | None = option(
        None, "finish the run in this folder; nothing that is done is done again",
        metavar="DIR", changes_results=False,
    )  # fmt: skip
    dry_run: bool = option(False, "say what would be run, and run nothing", changes_results=False)
    quiet: bool = option(
        False, "print the run's folder at the end and nothing else", changes_results=False
    )


class OneLineParser(argparse.ArgumentParser):
    """An argparse parser whose errors are one line, and help with a misspelt flag."""

    def error(self, message: str) -> NoReturn:
        raise InputError(message.removeprefix("argument "))


def _parser(options: type[RunOptions], command: str, description: str) -> OneLineParser:
    parser = OneLineParser(
        prog=f"python -m pipelines.{command}",
        description=description,
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    # argparse alone takes -1e-3 for a flag.
    parser._negative_number_matcher = re.compile(r"^-(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$")
    for field in dataclasses.fields(options):
        about = field.metadata
        if field.default is False:
            parser.add_argument(flag_of(field.name), action="store_true", help=about["help"])
            continue
        text = about["help"]
        if field.default is not None:
            text += f" (default: {shown(field.default)})"
        parser.add_argument(
            flag_of(field.name),
            action="extend" if about["nargs"] == "+" else "store",
            type=_named_parse(about["parse"]),
            choices=about["choices"],
            metavar=about["metavar"],
            nargs=about["nargs"],
            help=text.replace("%", "%%"),  # argparse would fill in what follows the sign
        )
    return parser


def _named_parse(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    def parse_named(text: str) -> Any:
        try:
            return parse(text)
        except ValueError:
            kind = "a whole number" if parse is int else "a number"
            raise argparse.ArgumentTypeError(f"must be {kind}, got {text!r}") from None

    return parse_named


def _refuse_unknown(options: type[RunOptions], unknown: Sequence[str]) -> None:
    if not unknown:
        return
    flags = [flag_of(field.name) for field in dataclasses.fields(options)]
    close = get_close_matches(unknown[0].split("=")[0], flags, n=1)
    way_out = f"did you mean {close[0]}?" if close else "--help lists the options"
    raise InputError(f"{unknown[0]} is not an option of this command; {way_out}")


def check_options(options: RunOptions) -> None:
    """Hold every option against its rule.

    Raises
    ------
    InputError
        One line that names the option, the rule and the value.
    """
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        check = field.metadata["check"]
        if check is None or value is None:
            continue
        rule = check(value)
        if rule:
            raise InputError(f"{flag_of(field.name)} must be {rule}, got {shown(value)}")


def parse_options(
    kind: type[Chosen], command: str, description: str, argv: Sequence[str] | None
) -> tuple[Chosen, dict[str, Any]]:
    """Read a command line.

    Returns
    -------
    options : the dataclass, checked
    given : dict of the options that stood on the command line

    Raises
    ------
    InputError
        An option is unknown, unreadable or breaks its rule.
    """
    known, unknown = _parser(kind, command, description).parse_known_args(argv)
    _refuse_unknown(kind, unknown)
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in vars(known).items()
    }
    options = _with_absolute_paths(kind(**given))
    given = {name: getattr(options, name) for name in given}
    if options.results is not None and options.resume is not None:
        raise InputError("--results and --resume exclude each other; --resume names the folder")
    check_options(options)
    return options, given


def _with_absolute_paths(options: Chosen) -> Chosen:
    paths: dict[str, Any] = {}
    for field in dataclasses.fields(options):
        value, path = getattr(options, field.name), field.metadata["path"]
        if not value or path is None:
            continue
        if isinstance(value, tuple):
            paths[field.name] = tuple(_absolute(one, path) for one in value)
        else:
            paths[field.name] = _absolute(value, path)
    return dataclasses.replace(options, **paths)


def _absolute(value: str, path: str) -> str:
    expanded = os.path.expanduser(value)
    is_path = path == "folder" or os.path.isfile(expanded)
    return os.path.abspath(expanded) if is_path else value


def options_of_resumed_run(
    kind: type[Chosen], recorded: dict[str, Any], given: dict[str, Any], folder: Path
) -> Chosen:
    """The recorded options of a run, with those given now that only say how to carry it out.

    Raises
    ------
    InputError
        An option that changes results was given with another value.
    """
    merged: dict[str, Any] = {}
    anew = _given_anew(given)
    for field in dataclasses.fields(kind):
        name = field.name
        old = field.default if name in anew else recorded.get(name, field.default)
        old = tuple(old) if isinstance(old, list) else old
        if not field.metadata["changes_results"]:
            merged[name] = given.get(name, old)
            continue
        if name in given and given[name] != old:
            raise InputError(
                f"{flag_of(name)} must stay {shown(old)} to resume {folder}, "
                f"got {shown(given[name])}; leave it out, or start a new run with --results"
            )
        merged[name] = old
    return _as_recorded(kind, merged, folder)


def _as_recorded(kind: type[Chosen], merged: dict[str, Any], folder: Path) -> Chosen:
    """Options that a record gave, held against their types and rules as those that are typed."""
    from pydantic import TypeAdapter, ValidationError

    types, options = get_type_hints(kind), kind(**merged)
    for field in dataclasses.fields(kind):
        name, value, choices = field.name, merged[field.name], field.metadata["choices"]
        try:
            TypeAdapter(types[name]).validate_python(value, strict=True)
        except ValidationError as error:
            raise _damaged_options(folder, f"{flag_of(name)}: {error.errors()[0]['msg']}") from None
        if choices and value not in choices:
            raise _damaged_options(folder, f"{flag_of(name)} must be one of {', '.join(choices)}")
    try:
        check_options(options)
    except InputError as error:
        raise _damaged_options(folder, str(error)) from None
    return options


def _damaged_options(folder: Path, problem: str) -> InputError:
    return InputError(
        f"--resume must be a run whose options are whole, got {folder} ({problem}); "
        "start a new run with --results"
    )


def deciding_results(options: RunOptions) -> dict[str, Any]:
    """The options that change results, those that only say how to carry out a run left out."""
    return {
        field.name: getattr(options, field.name)
        for field in dataclasses.fields(options)
        if field.metadata["changes_results"]
    }


def _given_anew(given: dict[str, Any]) -> set[str]:
    """Options that a resumed run does not take from the record, even where they are not given."""
    anew = {"results", "resume", "dry_run", "quiet"}
    if "cluster" in given:  # what was said of another cluster
        anew |= {"workers", "adaptive", "profile", "no_tls"}
    if "workers" in given or "adaptive" in given:  # one replaces the other
        anew |= {"workers", "adaptive"}
    return anew


def shown(value: Any) -> str:
    """An option's value as it is typed."""
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def print_error(command: str, message: str) -> None:
    """One line on stderr, in the form every command uses."""
    print(f"{command}: {' '.join(message.split())}", file=sys.stderr)
