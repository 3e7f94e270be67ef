"""Whole jobs beside their peers, as users write them: ``python -m benchmarks.beside``.

A grid of an SVM, and one binary problem along C, on the digits. Each way is a program in the
folder of its job, written as its own documentation has it, and run in a process of its own:
seconds from the start of Python to the answer, peak memory, and errors. Programs run in turn;
``benchmarks/peers.txt`` installs the peers.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import add_count, add_results, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from pipelines.run.options import OneLineParser

COMMAND = "benchmarks.beside"
FOLDER = Path(__file__).parent
JOBS = {
    "grid": "C and gamma of an SVM by 5-fold cross-validation",
    "binary": "C of an SVM of two classes by 5-fold cross-validation",
}
OURS = "ours"
PACKAGES = ("scikit-learn", "dask", "dask-ml", "optuna", "ray", "torchkm", "torch")
LOOK_EVERY = 0.2  # seconds


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    add = parser.add_argument
    add("--job", action="append", choices=tuple(JOBS), help="this one alone; may be given again")
    add("--only", action="append", metavar="NAME", help="of the peers, these alone")
    add_count(parser, "--n-c", 12, "number of C, from 1e-3 to 1e6")
    add_count(parser, "--n-gamma", 12, "number of gamma, from 1e-6 to 1e-2")
    add_count(parser, "--limit", None, "rows of the digits to learn from")
    add_count(parser, "--repeat", 3, "turns of each program")
    add_results(parser)
    return parser


def _run(options: argparse.Namespace) -> None:
    from benchmarks.machine import installed

    jobs = {job: measure(job, options) for job in options.job or JOBS}
    record = stamped(
        "beside",
        n_c=options.n_c,
        n_gamma=options.n_gamma,
        jobs=jobs,
        peers={name: v for name, v in installed(PACKAGES).items() if name in PACKAGES},
    )
    text = page(record)
    print(f"\n{text}\nkept in {keep(Path(options.results), 'beside', record, text)}")


def programs(job: str) -> list[Path]:
    """Those that do a job, ours first."""
    return sorted((FOLDER / job).glob("*.py"), key=lambda path: (path.stem != OURS, path.stem))


def about(program: Path) -> str:
    """What its first line says of it."""
    return (ast.get_docstring(ast.parse(program.read_text())) or program.stem).rstrip(".")


def measure(job: str, options: argparse.Namespace) -> dict[str, Any]:
    """Every program of a job in turn, as often as is asked for."""
    wanted = {OURS, *(options.only or [path.stem for path in programs(job)])}
    lines: list[dict[str, Any]] = [
        {"way": path.stem, "about": about(path), "path": path, "runs": []}
        for path in programs(job)
        if path.stem in wanted
    ]
    with tempfile.TemporaryDirectory() as folder:
        problem = Path(folder, "problem.npz")
        n_rows = write_problem(problem, job, options)
        # What ours compiles at its first use, benchmarks.first_use measures.
        warm_up = run(programs(job)[0], problem)
        print(f"warm-up, not counted  {job}, {OURS}: {warm_up}", flush=True)
        for turn in range(options.repeat):
            for line in lines:
                if "missing" not in line:
                    ended = run(line["path"], problem)
                    print(f"turn {turn + 1}  {job}, {line['way']}: {ended}", flush=True)
                    line.update(ended if "missing" in ended else {"runs": [*line["runs"], ended]})
    kept = [{key: value for key, value in line.items() if key != "path"} for line in lines]
    return {"n_rows": n_rows, "lines": kept}


def write_problem(path: Path, job: str, options: argparse.Namespace) -> int:
    """The rows and the grid that all programs of a job are given; how many they learn from."""
    from pipelines.data.load import load_dataset

    data = load_dataset("digits", limit=options.limit, seed=0)
    scaling = data.scaling.fit(data.X_train)
    X, X_test = (scaling.transform(rows).astype(float) for rows in (data.X_train, data.X_test))
    y, y_test = data.y_train, data.y_test
    gammas = np.logspace(-6, -2, options.n_gamma)
    if job == "binary":  # odd or even: all rows, and no pair of digits that are easy to tell
        y, y_test = (np.asarray(labels) % 2 for labels in (y, y_test))
        gammas = np.array([1 / X.shape[1]])
    Cs = np.logspace(-3, 6, options.n_c)
    np.savez(path, X=X, y=y, X_test=X_test, y_test=y_test, Cs=Cs, gammas=gammas)
    return len(y)


def run(program: Path, problem: Path) -> dict[str, Any]:
    """From the start of Python to the answer.

    Memory is what the process and those that it started hold together, what they share counted
    once, at its highest of five looks a second.

    Returns
    -------
    dict with ``seconds``, ``peak_bytes`` and what the program says of itself; or ``missing``: why
    it did not end
    """
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as output:
        began = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, str(program), str(problem)],
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            # Ours is imported from here, whatever the folder it runs in.
            env=os.environ | {"PYTHONPATH": str(FOLDER.parents[1])},
        )
        peak = 0
        while process.poll() is None:
            peak = max(peak, _memory_of(process.pid))
            time.sleep(LOOK_EVERY)
        seconds = time.perf_counter() - began
        output.seek(0)
        text = output.read().strip()
    if process.returncode:
        return {"missing": (text.splitlines() or [f"exit status {process.returncode}"])[-1]}
    (*_, answer) = (line for line in text.splitlines() if line.startswith('{"'))
    return {"seconds": seconds, "peak_bytes": peak} | json.loads(answer)


def _memory_of(pid: int) -> int:
    import psutil

    total = 0
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        for member in [process, *process.children(recursive=True)]:
            with suppress(psutil.Error):
                total += member.memory_full_info().pss
    return total


def page(record: dict[str, Any]) -> str:
    """The record as a page to read."""
    from benchmarks.machine import in_words

    header = ["", "seconds", "times ours", "peak memory", "validation error", "test error"]
    parts = [
        f"# Whole jobs beside their peers, {record['date']}\n\nThe digits, seconds from the start "
        "of Python to the answer (median, fastest and slowest turn), peak memory of all processes, "
        "and errors."
    ]
    for job, result in record["jobs"].items():
        ours, size = result["lines"][0], f"{result['n_rows']:,} rows, {record['n_c']} C"
        size += f" × {record['n_gamma']} gamma" if job == "grid" else ""
        table = markdown_table(header, [_cells(line, ours) for line in result["lines"]])
        parts.append(f"## {JOBS[job]}\n\n{size}.\n\n{table}")
        parts += [
            f"Not run, {line['about']}: {line['missing']}"
            for line in result["lines"]
            if "missing" in line
        ]
    peers = ", ".join(f"{name} {version}" for name, version in record["peers"].items())
    again = f"python -m {COMMAND} --n-c {record['n_c']} --n-gamma {record['n_gamma']}"
    parts.append(f"{peers}.\n\n{in_words(record['machine'])}. Repeat it: `{again}`.\n")
    return "\n\n".join(parts)


def _cells(line: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    if not line["runs"]:
        return [line["about"], *["–"] * 5]
    seconds, first = [turn["seconds"] for turn in line["runs"]], line["runs"][0]
    median = statistics.median(seconds)
    below = statistics.median(turn["seconds"] for turn in ours["runs"]) if ours["runs"] else None
    return [
        line["about"],
        f"{median:.1f} ({min(seconds):.1f} to {max(seconds):.1f})",
        "–" if line is ours or below is None else f"{median / below:.2f}",
        f"{max(turn['peak_bytes'] for turn in line['runs']) / 1e6:,.0f} MB",
        f"{first['cv_error']:.2%}",
        f"{first['test_error']:.2%}",
    ]


if __name__ == "__main__":
    sys.exit(main())
