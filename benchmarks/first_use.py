"""A first use, with nothing compiled, beside ``SVC``: ``python -m benchmarks.first_use``.

The command's default, the digits' grid; and from Python few noisy rows up to a large C, and the
default grid of small tables.  Each program is a process of its own; ours runs with an empty cache
of numba's, again with all compiled, and its peer in turn with it.  What the first use would compile
in the background is held back, and measured by itself.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.command import add_results, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from pipelines.errors import InputError
from pipelines.run.options import OneLineParser
from pipelines.svm.cpu import first_use

COMMAND = "benchmarks.first_use"
COMPILING = "from pipelines.warm_up import solve_on_cpu; solve_on_cpu()"

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
_TABLE = """
from sklearn.datasets import load_{0}
from sklearn.preprocessing import StandardScaler
X, y = load_{0}(return_X_y=True)
X = StandardScaler().fit_transform(X)
Cs, gammas = [0.1, 1.0, 10.0, 100.0], [0.001, 0.01, 0.1, 1.0]
"""
_IN_PLACE = """
from sklearn.svm import SVC
from {0}
print(Search(SVC(), {{"C": Cs, "gamma": gammas}}, cv=5).fit(X, y).best_score_)
"""
_GRID_SEARCH = _IN_PLACE.format("pipelines import GridSearch as Search")
_PEER = _IN_PLACE.format("sklearn.model_selection import GridSearchCV as Search")
_SVM_GRID_SEARCH = _OURS.replace("cv=3", "cv=5")
# Of each job, our program's arguments and the peer's.
JOBS: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "command, digits": (("-m", "pipelines.svm_grid", "--quiet"), ("-c", _DIGITS)),
    "Python, noisy rows": (("-c", _NOISY + _OURS), ("-c", _NOISY + _THEIRS)),
    **{
        f"{name}, {table.replace('_', ' ')}": (("-c", rows + search), ("-c", rows + _PEER))
        for name, search in (("SVMGridSearch", _SVM_GRID_SEARCH), ("GridSearch", _GRID_SEARCH))
        for table in ("iris", "breast_cancer", "digits")
        for rows in (_TABLE.format(table),)
    },
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    parser.add_argument("--job", choices=tuple(JOBS), action="append", help="default: all")
    parser.add_argument("--repeats", type=int, default=3, help="of each, the median (default: 3)")
    add_results(parser)
    return parser


def _run(options: argparse.Namespace) -> None:
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        compiled = Path(folder) / "compiled"
        compiling = _timed(("-c", COMPILING), Path(folder), "compiling", compiled)
        for name in options.job or JOBS:
            turns = [measure(name, compiled) for _ in range(options.repeats)]
            lines.append(_median(turns))
            print(_cells(lines[-1]), flush=True)
    load = round(os.getloadavg()[1], 1)
    record = stamped("first_use", load=load, compiling=compiling, lines=lines)
    text = page(record)
    print(f"\n{text}\nkept in {keep(Path(options.results), 'first-use', record, text)}")


def measure(name: str, compiled: Path) -> dict[str, Any]:
    """A job with wall and CPU seconds of its first use, of one with all compiled, of the peer."""
    ours, theirs = JOBS[name]
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder) / "cache"
        with nothing_beside(empty):
            first = _timed(ours, Path(folder), "first", empty)
        again = _timed(ours, Path(folder), "again", compiled)
        return {
            "job": name,
            "first": first,
            "again": again,
            "SVC": _timed(theirs, Path(folder), "SVC", compiled),
        }


def _median(turns: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Each turn of the repeat in which its CPU seconds are the median."""
    of_cpu = {
        turn: sorted((repetition[turn] for repetition in turns), key=lambda seconds: seconds["cpu"])
        for turn in ("first", "again", "SVC")
    }
    return {"job": turns[0]["job"], **{turn: all_[len(all_) // 2] for turn, all_ in of_cpu.items()}}


@contextmanager
def nothing_beside(cache: Path) -> Iterator[None]:
    """Hold back what a first use begins in the background, as if another process were at it."""
    kept_in = cache / first_use.folder_name()
    kept_in.mkdir(parents=True)
    with (kept_in / first_use.LOCK).open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _timed(program: Sequence[str], folder: Path, turn: str, cache: Path) -> dict[str, float]:
    """Run a program from the current folder; return its seconds with its processes'."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # what is imported twice is compiled once
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
    compiling = record["compiling"]
    table = markdown_table(header, [_cells(line) for line in record["lines"]])
    return (
        f"# First use, {record['date']}\n\nCPU seconds of all processes, and wall seconds, of "
        "whole programs with their imports, the medians of some repeats: with nothing compiled, "
        "with all compiled, and the peer, on all cores in the first two jobs. The ratios are of "
        f"CPU seconds. What a first use begins in the background takes {compiling['cpu']:.1f} CPU "
        f"seconds at the lowest priority, and is in none of these.\n\n{table}\n\n"
        f"{in_words(record['machine'])}; {record['load']} processes were at work in the mean of "
        f"five minutes, ours among them. Repeat it: `python -m {COMMAND}`.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
