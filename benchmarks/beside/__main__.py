"""Whole jobs beside their peers, as users write them: ``python -m benchmarks.beside``.

A grid of an SVM, one binary problem along C, and an ensemble of networks on the digits. Each way is
a program in the folder of its job, written as its own documentation has it, and run in a process of
its own: seconds from the start of Python to the answer, peak memory, errors, and the lines that its
user writes. Programs run in turn, each with what ``--python`` has installed (see requirements.txt
in ``benchmarks/beside``), ours with this Python.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.beside.measure import OURS, about, lines_of, programs, run
from benchmarks.command import add_count, add_results, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from pipelines.errors import InputError
from pipelines.run.options import OneLineParser

COMMAND = "benchmarks.beside"
JOBS = {
    "grid": "C and gamma of an SVM by 5-fold cross-validation",
    "binary": "C of an SVM of two classes by 5-fold cross-validation",
    "ensemble": "An ensemble of networks",
}
PACKAGES = ("scikit-learn", "dask", "dask-ml", "optuna", "ray", "torchkm", "pytabkit", "torch")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    add = parser.add_argument
    add(
        "--python", default=sys.executable, metavar="FILE", help="that has the peers; default: ours"
    )
    add("--job", action="append", choices=tuple(JOBS), help="this one alone; may be given again")
    add("--only", action="append", metavar="NAME", help="of the peers, these alone")
    add_count(parser, "--n-c", 12, "number of C, from 1e-3 to 1e6")
    add_count(parser, "--n-gamma", 12, "number of gamma, from 1e-6 to 1e-2")
    add_count(parser, "--limit", None, "rows of the digits to learn from")
    add_count(parser, "--repeat", 3, "turns of each program")
    add_results(parser)
    return parser


def _run(options: argparse.Namespace) -> None:

    jobs = {}
    for job in options.job or JOBS:
        ways = [
            path for path in programs(job)
            if path.stem == OURS or not options.only or path.stem in options.only
        ]  # fmt: skip
        jobs[job] = measure(job, ways, options)
    record = stamped(
        "beside",
        n_c=options.n_c,
        n_gamma=options.n_gamma,
        jobs=jobs,
        peers=_installed(options.python),
    )
    text = page(record)
    print(f"\n{text}\nkept in {keep(Path(options.results), 'beside', record, text)}")


def measure(job: str, ways: Sequence[Path], options: argparse.Namespace) -> dict[str, Any]:
    """Every program of a job in turn, as often as is asked for."""
    runs: dict[str, list[dict[str, Any]]] = {way.stem: [] for way in ways}
    with tempfile.TemporaryDirectory() as place:
        problem = Path(place) / "problem.npz"
        n_rows = write_problem(problem, job, options)
        for turn in range(options.repeat):
            for way in ways:
                if any("missing" in one for one in runs[way.stem]):
                    continue
                python = sys.executable if way.stem == OURS else options.python
                runs[way.stem].append(run(python, way, problem))
                print(f"turn {turn + 1}  {job}, {way.stem}: {runs[way.stem][-1]}", flush=True)
    lines = []
    for way in ways:
        done = [one for one in runs[way.stem] if "missing" not in one]
        line = {"way": way.stem, "about": about(way), "lines": lines_of(way)}
        lines.append(
            line | {"runs": done} if done else line | {"missing": runs[way.stem][0]["missing"]}
        )
    return {"n_rows": n_rows, "lines": lines}


def write_problem(path: Path, job: str, options: argparse.Namespace) -> int:
    """The rows and the grid that all programs of a job are given; how many they learn from."""
    from pipelines.data import load_dataset

    data = load_dataset("digits", limit=options.limit, seed=0)
    scaling = data.scaling.fit(data.X_train)
    X, X_test = (scaling.transform(rows).astype(float) for rows in (data.X_train, data.X_test))
    y, y_test = data.y_train, data.y_test
    if job == "binary":  # odd or even: all rows, and no pair of digits that are easy to tell
        y, y_test = (np.asarray(labels) % 2 for labels in (y, y_test))
    np.savez(
        path, X=X, y=y, X_test=X_test, y_test=y_test, Cs=np.logspace(-3, 6, options.n_c),
        gammas=[1 / X.shape[1]] if job == "binary" else np.logspace(-6, -2, options.n_gamma),
    )  # fmt: skip
    return len(y)


def _installed(python: str) -> dict[str, str]:
    ask = (
        "from importlib.metadata import distributions\n"
        "print('\\n'.join(f'{one.name} {one.version}' for one in distributions()))"
    )
    try:
        said = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        raise InputError(f"--python must be a Python that starts, got {python}") from None
    found = dict(line.lower().rsplit(" ", 1) for line in said.stdout.splitlines() if " " in line)
    return {name: found[name] for name in PACKAGES if name in found}


def page(record: dict[str, Any]) -> str:
    """The record as a page to read."""
    from benchmarks.machine import in_words

    parts = [
        f"# Whole jobs beside their peers, {record['date']}\n\nThe digits, seconds from the start "
        "of Python to the answer (median, fastest and slowest turn), peak memory of all processes, "
        "errors, and lines of the program, reading the rows and printing the answer included."
    ]
    for job, found in record["jobs"].items():
        size = f", {record['n_c']} C × {record['n_gamma']} gamma" if job == "grid" else ""
        size = f", {record['n_c']} C" if job == "binary" else size
        rows = [_cells(line, found["lines"][0]) for line in found["lines"]]
        header = ["", "seconds", "times as long as ours", "peak memory", "validation error",
                  "test error", "lines"]  # fmt: skip
        parts.append(
            f"## {JOBS[job]}\n\n{found['n_rows']:,} rows{size}.\n\n{markdown_table(header, rows)}"
        )
        parts += [
            f"Not run, {line['about']}: {line['missing']}"
            for line in found["lines"]
            if "missing" in line
        ]
    peers = ", ".join(f"{name} {version}" for name, version in record["peers"].items())
    parts.append(f"Peers: {peers}.")
    parts.append(
        f"{in_words(record['machine'])}. Repeat it: `python -m {COMMAND} --python FILE`.\n"
    )
    return "\n\n".join(parts)


def _cells(line: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    if "missing" in line:
        return [line["about"], *["–"] * 5, str(line["lines"])]
    seconds = [one["seconds"] for one in line["runs"]]
    median = statistics.median(seconds)
    first = line["runs"][0]
    ratio = "–"
    if line is not ours and "runs" in ours:
        ratio = f"{median / statistics.median(one['seconds'] for one in ours['runs']):.2f}"
    return [
        line["about"],
        f"{median:.1f} ({min(seconds):.1f} to {max(seconds):.1f})",
        ratio,
        f"{max(one['peak_bytes'] for one in line['runs']) / 1e6:,.0f} MB",
        f"{first['cv_error']:.2%}" if "cv_error" in first else "–",
        f"{first['test_error']:.2%}",
        str(line["lines"]),
    ]


if __name__ == "__main__":
    sys.exit(main())
