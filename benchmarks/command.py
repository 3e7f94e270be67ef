"""What the benchmarks' command lines share: options of one meaning, errors of one line."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from benchmarks.keep import RESULTS
from cluster_setup.errors import ClusterError
from pipelines.console import print_error
from pipelines.errors import InputError
from pipelines.run.options import OneLineParser

# Tables are left out: each fold scales them in its own way, so no two lines share arrays.
IMAGES = ("digits", "mnist", "fashion-mnist")


def base_parser(command: str, about: str | None, *, dataset: str, folds: int) -> OneLineParser:
    """A parser with the options of every benchmark: ``dataset`` and ``folds`` are defaults."""
    parser = OneLineParser(prog=f"python -m {command}", description=about)
    add = parser.add_argument
    add("--dataset", default=dataset, choices=IMAGES, help=f"default: {dataset}")
    add("--data-dir", default="data", metavar="DIR", help="default: data")
    add_count(parser, "--folds", folds)
    add_results(parser)
    return parser


def add_results(parser: OneLineParser) -> None:
    """``--results``: where what was found is kept."""
    parser.add_argument("--results", default=RESULTS, metavar="DIR", help=f"default: {RESULTS}")


def add_limit(parser: OneLineParser) -> None:
    """``--limit``: a part of the data set."""
    add_count(parser, "--limit", None, "use a stratified subset of N training rows")


def add_turns(parser: OneLineParser, repeat: int) -> None:
    """``--seed`` and ``--repeat``, of lines that are timed in turn."""
    help = "of subset and folds (default: 0)"
    parser.add_argument("--seed", type=int, default=0, metavar="N", help=help)
    add_count(parser, "--repeat", repeat, "turns of a line")


def add_grid(parser: OneLineParser, n: int) -> None:
    """``--n-c`` and ``--n-gamma``, each ``n`` by default."""
    add_count(parser, "--n-c", n, "number of C")
    add_count(parser, "--n-gamma", n, "number of gamma")


def add_count(parser: OneLineParser, flag: str, default: int | None, about: str = "") -> None:
    """An option that is a whole number of at least 1."""
    default_text = "" if default is None else f"default: {default}"
    help = f"{about} ({default_text})" if about and default_text else about or default_text
    parser.add_argument(flag, type=count, default=default, metavar="N", help=help)


def count(text: str) -> int:
    """A whole number of at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {value}")
    return value


def exit_status(command: str, run: Callable[[], None]) -> int:
    """Run a benchmark: 0, or 2 and one line for bad input."""
    try:
        run()
    except InputError as error:
        print_error(command, error.flagged())
        return 2
    except ClusterError as error:
        print_error(command, str(error))
        return 2
    return 0
