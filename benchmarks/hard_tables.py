"""Hard tables, ours beside ``SVC`` cell by cell: ``python -m benchmarks.hard_tables``.

The text-book grid, 24 C × 24 gamma, on generated tables (``benchmarks/tables/tables.py``). CPU
seconds on one core. Ours has some of the gammas with all C and folds; ``SVC`` some cells of the
first fold, each in a process that is ended after ``--cap`` CPU seconds and then counted as so
long; both are projected to the whole grid.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import add_count, add_results, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from benchmarks.tables.tables import TABLES, make_table
from pipelines.run.options import OneLineParser

COMMAND = "benchmarks.hard_tables"
# C.-W. Hsu, C.-C. Chang, C.-J. Lin, "A practical guide to support vector classification", 2003.
CS = np.logspace(-5, 15, 24, base=2)
GAMMAS = np.logspace(-15, 3, 24, base=2)

Fold = tuple[np.ndarray, np.ndarray]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    add = parser.add_argument
    add("--table", action="append", choices=tuple(TABLES), help="several times; default: all")
    add_count(parser, "--rows", None, "of each table, in place of the public one's number")
    add_count(parser, "--gammas", 24, "of 24, ours")
    add_count(parser, "--sample", 6, "of 24 C, and of 24 gamma, the peer's cells")
    add_count(parser, "--cap", 60, "CPU seconds after which a cell of the peer is ended")
    add_count(parser, "--folds", 5)
    add_results(parser)
    return parser


def _run(options: argparse.Namespace) -> None:
    import sklearn.svm  # noqa: F401  so that children of this process need not import it
    from threadpoolctl import threadpool_limits

    from pipelines.svm.cpu.path import cross_validate_path

    lines = []
    with threadpool_limits(1):
        X, y = make_table("phoneme", 600)  # compiles what will be timed
        halves = (np.arange(400), np.arange(400, 600))
        cross_validate_path(X, y, [0.3], np.logspace(-1, 5, 8).tolist(), [halves], n_threads=1)
        for name in options.table or tuple(TABLES):
            lines.append(measure(name, options))
            print(_cells(lines[-1]), flush=True)
    record = stamped("hard_tables", folds=options.folds, cap=options.cap, lines=lines)
    text = page(record)
    print(f"\n{text}\nkept in {keep(Path(options.results), 'hard-tables', record, text)}")


def middles(n: int) -> np.ndarray:
    """``n`` numbers of the 24: the middles of as many equal parts."""
    return ((np.arange(n) + 0.5) * CS.size / n).astype(np.int64)


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """CPU seconds of both on one table, projected to the whole grid."""
    from sklearn.model_selection import StratifiedKFold

    from pipelines.svm.cpu.path import cross_validate_path

    X, y = make_table(name, options.rows)
    folds = list(StratifiedKFold(options.folds, shuffle=True, random_state=0).split(X, y))
    indices = np.union1d(middles(options.gammas), middles(options.sample))
    began = time.process_time()
    ours = cross_validate_path(X, y, GAMMAS[indices].tolist(), CS.tolist(), folds, n_threads=1)
    seconds = (time.process_time() - began) * GAMMAS.size / indices.size
    cells = [
        peer_cell(X, y, folds[0], CS[c], GAMMAS[g], options.cap)
        | {"ours": int(ours.n_errors[np.searchsorted(indices, g), c, 0])}
        for g in middles(options.sample)
        for c in middles(options.sample)
    ]
    apart = [abs(cell["errors"] - cell["ours"]) for cell in cells if cell["errors"] is not None]
    peer = statistics.mean(cell["seconds"] for cell in cells) * CS.size * GAMMAS.size * len(folds)
    return {
        "table": name,
        "rows": len(X),
        "features": X.shape[1],
        "ours_seconds": seconds,
        "n_gammas": int(indices.size),
        "unconverged": int((ours.status != 0).sum()),
        "n_cells": int(ours.status.size),
        "peers": {"SVC": {"seconds": peer}},
        "ratio": peer / seconds,
        "capped": sum(cell["errors"] is None for cell in cells),
        "n_differ": sum(rows > 0 for rows in apart),
        "furthest_rows": max(apart, default=0),
        "cells": cells,
    }


def peer_cell(
    X: np.ndarray, y: np.ndarray, fold: Fold, C: float, gamma: float, cap: int
) -> dict[str, Any]:
    """CPU seconds and errors of one ``SVC``; errors None where it was ended at ``cap`` seconds."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (cap, cap))
            os.write(writing, json.dumps(_fit_peer(X, y, fold, C, gamma)).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading) as answer:
        text = answer.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return {"seconds": float(cap), "errors": None}
    if status:
        raise RuntimeError(f"SVC failed at C = {C}, gamma = {gamma}")
    cell: dict[str, Any] = json.loads(text)
    return cell


def _fit_peer(X: np.ndarray, y: np.ndarray, fold: Fold, C: float, gamma: float) -> dict[str, Any]:
    from sklearn.svm import SVC

    train, validation = fold
    began = time.process_time()
    peer = SVC(C=C, gamma=gamma, cache_size=1000).fit(X[train], y[train])
    errors = int((peer.predict(X[validation]) != y[validation]).sum())
    return {"seconds": time.process_time() - began, "errors": errors}


def _cells(line: dict[str, Any]) -> list[str]:
    return [
        line["table"],
        f"{line['rows']:,}",
        str(line["features"]),
        f"{line['ours_seconds']:.1f}, of {line['n_gammas']} gammas",
        f"{line['unconverged']} of {line['n_cells']:,}",
        f"{line['peers']['SVC']['seconds']:,.0f}",
        f"{line['ratio']:.0f} ×",
        f"{line['capped']} of {len(line['cells'])}",
        f"{line['n_differ']}, at most {line['furthest_rows']} rows",
    ]


def page(record: dict[str, Any]) -> str:
    """The record as a page to read."""
    from benchmarks.machine import in_words

    header = ["table", "rows", "features", "ours, CPU s", "unconverged", "SVC, CPU s", "ratio"]
    header += ["ended", "cells that differ"]
    mean = statistics.geometric_mean(line["ratio"] for line in record["lines"])
    return (
        f"# Hard tables, {record['date']}\n\n24 C (2^-5 to 2^15) × 24 gamma (2^-15 to 2^3) × "
        f"{record['folds']} folds on generated tables, each described in "
        "`benchmarks/tables/tables.py`. CPU seconds on one core, projected to the whole grid: ours "
        "from all C and folds of the gammas; `SVC(cache_size=1000)`, fit and prediction, from "
        f"cells of the first fold, each ended after {record['cap']} s and counted as so long.\n\n"
        f"{markdown_table(header, [_cells(line) for line in record['lines']])}\n\n"
        f"Geometric mean of the ratios: {mean:.0f} ×.\n\n"
        f"{in_words(record['machine'])}. Repeat it: `python -m {COMMAND}`.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
