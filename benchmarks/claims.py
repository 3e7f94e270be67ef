"""What README and the documentation claim, measured again: ``python -m benchmarks.claims``.

``claims.toml`` lists every ratio that they quote: where it stands, the command that measures it,
and where it is in what the command keeps. The small form of each command runs once, and each
figure is printed beside its kept value. Exit status 1 where one is worse by more than a fifth.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.command import exit_status
from benchmarks.keep import RESULTS
from pipelines.errors import InputError
from pipelines.run.options import OneLineParser

COMMAND = "benchmarks.claims"
FILE = Path(__file__).with_suffix(".toml")
ALLOWED = 0.2  # a figure may be worse than its kept value by this fraction of it


@dataclass(frozen=True)
class Command:
    """A benchmark in two forms, and what it needs.

    Attributes
    ----------
    kept : str
        Its result in ``benchmarks/results``: the name of a JSON file without ending, of a run
        folder, or of a page (``.md``). The quoted figures are this result's.
    commit : str
        Repeats that result.
    large : str
        The command line that the kept result comes from, after ``python -m``; ``DIR`` stands for
        the folder of the data sets.
    small : str
        A short form of it; empty where there is none.
    seconds : float
        What the small form takes on two cores.
    packages : list of str
        Of ``benchmarks/peers.txt``, as they are imported.
    needs : {"", "gpu", "network", "hours"}
        What keeps even a small form from running on any machine: it is not run.
    """

    kept: str
    commit: str
    large: str
    small: str = ""
    seconds: float = 0.0
    packages: list[str] = field(default_factory=list)
    needs: str = ""

    def why_not(self) -> str:
        """The reason why the small form does not run here; empty if it does."""
        if self.needs:
            return {"gpu": "needs a GPU", "network": "needs the network"}.get(
                self.needs, "takes hours"
            )
        missing = [name for name in self.packages if find_spec(name) is None]
        return f"needs {', '.join(missing)} (benchmarks/peers.txt)" if missing else ""


@dataclass(frozen=True)
class Claim:
    """A figure that README or the documentation quotes.

    Attributes
    ----------
    command : str
        Key of the command that measures it.
    figure : list
        The way to it in the record: keys, indices, of a list of records the fields of one, and
        ``"*"`` for all of a list. Empty where the kept result is a page alone.
    over : list
        The way to what it is divided by.
    mean : {"geometric", "sums"}
        Of a list the geometric mean, or the ratio of the sums.
    scale : float
        The figure is multiplied by it: 100 makes percent.
    quoted : str
        As the texts have it: the kept result's figure, rounded.
    small : float, optional
        The kept value of the small form; None where that does not have the figure.
    better : {"higher", "lower"}
    peer : str
        What it is compared with, and its version.
    places : list of [file, words]
        The words contain the quoted figure.
    """

    command: str
    quoted: str
    places: list[list[str]]
    peer: str
    figure: list[Any] = field(default_factory=list)
    over: list[Any] = field(default_factory=list)
    mean: str = "geometric"
    scale: float = 1.0
    better: str = "higher"
    small: float | None = None

    def value(self, record: Any) -> float:
        """The figure of a record."""
        values = [float(value) for value in at(record, self.figure)]
        below = [float(value) for value in at(record, self.over)] if self.over else [1.0]
        if self.mean == "sums":
            return self.scale * sum(values) / sum(below)
        if len(below) == 1:
            below *= len(values)
        ratios = [value / divisor for value, divisor in zip(values, below, strict=True)]
        mean = ratios[0] if len(ratios) == 1 else statistics.geometric_mean(ratios)
        return self.scale * mean

    def is_worse(self, measured: float) -> bool:
        """Is a measured value worse than the small form's kept one by more than is allowed?"""
        assert self.small is not None
        if self.better == "higher":
            return measured < (1 - ALLOWED) * self.small
        return measured > (1 + ALLOWED) * self.small


def at(record: Any, way: Sequence[Any]) -> Iterator[Any]:
    """What stands at the end of a way through a record; of several turns the median."""
    if not way:
        numbers = isinstance(record, list)
        yield statistics.median(record) if numbers else record
        return
    step, *rest = way
    if step == "*":
        for item in record:
            yield from at(item, rest)
    elif isinstance(step, dict):
        items = [i for i in record if all(i[key] == value for key, value in step.items())]
        if len(items) != 1:
            raise InputError(f"one item of {step} must be there, found {len(items)}")
        yield from at(items[0], rest)
    else:
        yield from at(record[step], rest)


def read(path: Path = FILE) -> tuple[dict[str, Command], dict[str, Claim]]:
    """The commands and the claims, by their names."""
    content = tomllib.loads(path.read_text())
    return (
        {name: Command(**fields) for name, fields in content["commands"].items()},
        {name: Claim(**fields) for name, fields in content["claims"].items()},
    )


def record_in(folder: Path) -> Any:
    """The one record that a benchmark, or a run, left in a folder."""
    (path,) = folder.glob("*.json")
    return json.loads(path.read_text())


def kept_record(command: Command) -> Any:
    """The record of the result that the texts quote; of a page its text."""
    path = FILE.parent / "results" / command.kept
    if path.suffix == ".md":
        return path.read_text()
    return record_in(path) if path.is_dir() else json.loads(Path(f"{path}.json").read_text())


def measure(words: str, data_dir: str) -> Any:
    """The record of a command, run as a process of its own.

    Raises
    ------
    InputError
        It ended with an error.
    """
    with tempfile.TemporaryDirectory() as folder:
        argv = [data_dir if word == "DIR" else word for word in shlex.split(words)]
        done = subprocess.run(
            [sys.executable, "-m", *argv, "--results", f"{folder}/found"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        if done.returncode:
            complaints = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
            raise InputError(f"`python -m {words}` must run here: {complaints[-1]}")
        return record_in(Path(folder, "found"))


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the claims: 0, 1 where one is worse, or 2 for bad input."""
    worse: list[str] = []
    status = exit_status(COMMAND, lambda: worse.extend(_run(_parser().parse_args(argv))))
    for line in worse:
        print(line, file=sys.stderr)
    return status or int(bool(worse))


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    add = parser.add_argument
    add("name", nargs="*", metavar="NAME", help="a claim or a command; default: all")
    add("--data-dir", default="data", metavar="DIR", help="of MNIST; default: data")
    add("--keep", action="store_true", help="write what is measured into claims.toml")
    add("--list", action="store_true", help="the claims and their commands; nothing is run")
    return parser


def chosen(names: Sequence[str]) -> tuple[dict[str, Command], dict[str, Claim]]:
    """The claims of these names, or of commands of these names, and their commands.

    Raises
    ------
    InputError
        A name is neither.
    """
    commands, claims = read()
    for name in names:
        if name not in commands and name not in claims:
            raise InputError(f"NAME must be one of {', '.join([*commands, *claims])}, got {name}")
    if names:
        claims = {
            name: claim for name, claim in claims.items() if {name, claim.command} & set(names)
        }
    used = {claim.command for claim in claims.values()}
    return {name: command for name, command in commands.items() if name in used}, claims


def _run(options: argparse.Namespace) -> list[str]:
    commands, claims = chosen(options.name)
    worse = []
    for key, command in commands.items():
        of_this = {name: claim for name, claim in claims.items() if claim.command == key}
        if options.list:
            print(f"{key}: python -m {command.small or command.large}, {command.seconds:g} s")
            print("".join(f"    {name}: {claim.quoted}\n" for name, claim in of_this.items()))
            continue
        if reason := command.why_not():
            print(f"{key}: not run, {reason}; kept in {RESULTS}/{command.kept}")
            continue
        print(f"{key}: python -m {command.small}", flush=True)
        try:
            record = measure(command.small, options.data_dir)
        except InputError as error:  # the other commands have their turn
            worse.append(str(error))
            continue
        for name, claim in of_this.items():
            worse += _compare(name, claim, record, options.keep)
    return worse


def _compare(name: str, claim: Claim, record: Any, keep: bool) -> list[str]:
    """Print kept and measured side by side; a line if the claim is worse than its kept value."""
    if claim.small is None:
        print(f"    {name}: not in the short form, quoted {claim.quoted}", flush=True)
        return []
    measured = claim.value(record)
    print(f"    {name}: {measured:.3g}, kept {claim.small:.3g}, quoted {claim.quoted}", flush=True)
    if keep:
        write(name, measured)
    elif claim.is_worse(measured):
        return [
            f"{name} is worse by more than {ALLOWED:.0%}: {measured:.3g}, kept {claim.small:.3g} "
            f"({claim.better} is better)"
        ]
    return []


def write(name: str, measured: float, path: Path = FILE) -> None:
    """Set the kept value of the small form of a claim in ``claims.toml``."""
    tables = re.split(r"(?m)^(?=\[)", path.read_text())
    (index,) = (i for i, table in enumerate(tables) if table.startswith(f"[claims.{name}]\n"))
    tables[index] = re.sub(r"(?m)^small = .*$", f"small = {measured:.3g}", tables[index])
    path.write_text("".join(tables))


if __name__ == "__main__":
    sys.exit(main())
