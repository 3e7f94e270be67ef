"""A first use, with nothing compiled, beside ``SVC``: ``python -m benchmarks.first_use``.

Two jobs: the command's default, the digits' grid; and from Python few noisy rows up to a large
C, which take Newton's method as well, so that everything that a search of a dense RBF kernel
can reach is compiled.  Each program is a process of its own; ours runs with an empty cache of
numba's, again with what that has left, and its peer on all cores in turn with it.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.command import add_results, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from pipelines.errors import InputError
from pipelines.run.options import OneLineParser

COMMAND = "benchmarks.first_use"

_DIGITS = """
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.2, stratify=y, random_state=0)
scaler = StandardScaler().fit(X)
grid = {"C": np.logspace(-3, 6, 8), "gamma": np.logspace(-6, -2, 8)}
search = GridSearchCV(SVC(), grid, cv=5, n_jobs=-1).fit(scaler.transform(X), y)
print(search.score(scaler.transform(X_test), y_test))
"""
_NOISY = """
import numpy as np
from sklearn.datasets import make_classification
X, y = make_classification(1500, 6, n_informative=4, n_redundant=0, flip_y=0.25, random_state=0)
Cs, gammas = np.logspace(-1, 5, 5).tolist(), [0.3]
"""
_OURS = """
from pipelines import SVMGridSearch
print(SVMGridSearch(Cs, gammas, cv=3).fit(X, y).best_score_)
"""
_THEIRS = """
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC
print(GridSearchCV(SVC(), {"C": Cs, "gamma": gammas}, cv=3, n_jobs=-1).fit(X, y).best_score_)
"""
# Of each job, our program's arguments and the peer's.
JOBS: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "command, digits": (("-m", "pipelines.svm_grid", "--quiet"), ("-c", _DIGITS)),
    "Python, noisy rows": (("-c", _NOISY + _OURS), ("-c", _NOISY + _THEIRS)),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    parser.add_argument("--job", choices=tuple(JOBS), action="append", help="default: both")
    add_results(parser)
    return parser


def _run(options: argparse.Namespace) -> None:
    lines = []
    for name in options.job or JOBS:
        lines.append(measure(name))
        print(_cells(lines[-1]), flush=True)
    record = stamped("first_use", load=round(os.getloadavg()[1], 1), lines=lines)
    text = page(record)
    print(f"\n{text}\nkept in {keep(Path(options.results), 'first-use', record, text)}")


def measure(name: str) -> dict[str, Any]:
    """Return a job with wall and CPU seconds of its first use, of the next, and of the peer."""
    ours, theirs = JOBS[name]
    with tempfile.TemporaryDirectory() as folder:
        turns = {"first": ours, "again": ours, "SVC": theirs}
        found = {turn: _timed(program, Path(folder), turn) for turn, program in turns.items()}
    return {"job": name, **found}


def _timed(program: Sequence[str], folder: Path, turn: str) -> dict[str, float]:
    """Run a program from the current folder; return its seconds with its processes'."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder / "cache")}
    if "-m" in program:
        program = [*program, "--results", str(folder / turn)]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, *program], env=environment, capture_output=True, text=True
    )
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise InputError(f"the program must run here: {done.stderr.strip().splitlines()[-1]}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall": round(wall, 2), "cpu": round(cpu, 2)}


def _cells(line: dict[str, Any]) -> list[str]:
    cells = [line["job"]]
    for turn in ("first", "again", "SVC"):
        cells.append(f"{line[turn]['cpu']:.1f}, {line[turn]['wall']:.1f}")
    return [
        *cells,
        *(f"{line[turn]['cpu'] / line['SVC']['cpu']:.2f}" for turn in ("first", "again")),
    ]


def page(record: dict[str, Any]) -> str:
    """The record as a page to read."""
    from benchmarks.machine import in_words

    header = ["job", "first", "again", "GridSearchCV(SVC())", "first / peer", "again / peer"]
    table = markdown_table(header, [_cells(line) for line in record["lines"]])
    return (
        f"# First use, {record['date']}\n\nCPU seconds of all processes, and wall seconds, of "
        "whole programs with their imports: with nothing compiled, with what the first has left, "
        f"and the peer on all cores. The ratios are of CPU seconds.\n\n{table}\n\n"
        f"{in_words(record['machine'])}; {record['load']} processes were at work in the mean of "
        f"five minutes, ours among them. Repeat it: `python -m {COMMAND}`.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
