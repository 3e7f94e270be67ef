"""The command ``pleasingly warm-up``: compile in advance what runs compile at first use."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import product
from typing import Any

import numpy as np

from cluster_setup.on_this_machine.devices import cuda_lack, visible_gpus
from pipelines.errors import InputError, opt
from pipelines.run.options import option, parse_options

DESCRIPTION = (
    "Compile what runs compile at first use, and keep it on disk: the SVM solver and PageRank for "
    "the CPU, and where there is a GPU the solver's kernels (rbf) for that. For the build of a "
    "container, and for a job before many others."
)
EXAMPLES = ("--device cpu",)
N_ROWS = 200
CS, GAMMAS = (1.0, 1e5), (0.5,)  # at the large C the solver turns to Newton's method


@dataclass(frozen=True)
class Options:
    """Options of ``warm-up``."""

    device: str = option(
        "auto",
        "what to compile for: cpu, gpu, or both where there is a GPU that can be used",
        choices=("auto", "cpu", "gpu"),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Compile the functions that are not on disk, with a line on each solver.

    Returns
    -------
    int
        Exit status: 0, 1 if compiled functions cannot be stored, 2 for bad input.
    """
    from pipelines.console import echo, flush_and_exit, print_error, take_any_terminal

    take_any_terminal()
    try:
        options, _ = parse_options(Options, "warm_up", DESCRIPTION, argv, EXAMPLES)
        for what, solve in parts(options.device):
            echo(line(what, solve))
        return 0
    except InputError as error:
        print_error("warm-up", error.flagged())
        return 2
    except OSError as error:
        print_error("warm-up", str(error))
        return 1
    finally:
        flush_and_exit()


def parts(device: str) -> Iterator[tuple[str, Callable[[], None]]]:
    """What to compile for a device.

    Parameters
    ----------
    device : str
        "auto", "cpu" or "gpu".

    Yields
    ------
    name : str
        Name of a solver, for the terminal.
    solve : callable without parameters
        Solves a small problem that uses all compiled functions of the solver.

    Raises
    ------
    InputError
        ``device`` is "gpu" and no GPU can be used.
    """
    if device != "gpu":
        yield "SVM solver, CPU", solve_on_cpu
        yield "PageRank, CPU", rank_nodes
    if device == "cpu":
        return
    gpus, lack = visible_gpus(), cuda_lack()
    has_cupy = find_spec("cupy") is not None
    if gpus and has_cupy and lack is None:
        yield f"SVM solver, {gpus[0].name}", solve_on_gpu
    elif device == "gpu":
        why = lack.why if lack else "it has none" if not gpus else "cupy is not installed"
        raise InputError(
            f"{opt('device', 'gpu')} needs a GPU that can be used here: {why}; use "
            f"{opt('device', 'cpu')}, or start it on a node with a GPU"
        )


def line(what: str, solve: Callable[[], None]) -> str:
    """Solve a small problem; a line on the functions that were compiled for it.

    Parameters
    ----------
    what : str
        Name of the solver.
    solve : callable without parameters

    Returns
    -------
    str

    Raises
    ------
    OSError
        The compiled functions cannot be stored.
    """
    from pipelines.svm.compiled import COMPILED, LOADED

    COMPILED.clear()
    LOADED.clear()
    started = time.perf_counter()
    solve()
    seconds = time.perf_counter() - started
    lost_files = [path for path in COMPILED if not path.exists()]
    if lost_files:
        raise OSError(
            f"what was compiled for {what} cannot be kept in {lost_files[0].parent}; "
            "set NUMBA_CACHE_DIR to a folder with room"
        )
    folders = ", ".join(sorted({str(path.parent) for path in (*COMPILED, *LOADED)}))
    if not COMPILED:
        return f"there      {what}: nothing is left to compile; it is in {folders}"
    n = len(COMPILED)
    return f"compiled   {what}: {n} function{'s' * (n > 1)} in {seconds:.0f} s, kept in {folders}"


def small_problem() -> tuple[np.ndarray, np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
    """Rows of four overlapping classes, their labels, and two folds."""
    rows = np.arange(N_ROWS)
    X = np.random.default_rng(0).normal(size=(N_ROWS, 3))
    return X, rows * 4 // N_ROWS, [(rows[::2], rows[1::2]), (rows[1::2], rows[::2])]


def solve_on_cpu() -> None:
    """Fit small problems of all CPU solvers: in memory, beyond it, regression and landmarks."""
    from pipelines.svm.cpu.path import cross_validate_path
    from pipelines.svm.cpu.regression import fit_regression
    from pipelines.svm.landmarks.search import fit_landmarks
    from pipelines.svm.settings import Settings

    X, y, folds = small_problem()
    for decision, memory in product(("ovo", "ovr"), (1 << 30, 50_000)):
        options = {"decision": decision, "memory_bytes": memory, "n_threads": 1}
        for classes, splits in product((y, y % 2), (folds, folds[:1])):
            cross_validate_path(X, classes, GAMMAS, CS, splits, **options)
    fit_regression(X, X[:, 0], C=1e4, gamma=0.1, n_threads=1)
    fit_landmarks(X, y, 1.0, GAMMAS[0], Settings(n_landmarks=20, n_threads=1))


def rank_nodes() -> None:
    """Rank a small graph with and without weights, duplicate edges and personalisation."""
    import pandas as pd

    from pipelines.graph import compute_pagerank

    rng = np.random.default_rng(0)
    edges = tuple(rng.integers(0, 50, (2, 500)))
    weights = rng.uniform(size=500)
    for table, repeated in product((edges, (*edges, weights)), ("sum", "once")):
        for personalise in (None, pd.DataFrame(np.eye(50)[:, :2])):
            arguments = {"repeated": repeated, "personalise": personalise, "n_jobs": 1}
            compute_pagerank(table, nodes=50, **arguments)


def solve_on_gpu(xp: Any = None) -> None:
    """Search a small grid with the launches of large ones, with Newton's method and without.

    Parameters
    ----------
    xp : module, optional
        Array module; by default cupy.
    """
    from pipelines.svm.cuda.launches import Launching
    from pipelines.svm.cuda.path import cross_validate_path_cuda

    X, y, folds = small_problem()
    launchings = dict.fromkeys(Launching.for_rows(n) for n in (100, 10_000, 100_000))
    for launching, hard_members in product(launchings, (None, 0)):
        how = replace(launching, hard_members=hard_members)
        cross_validate_path_cuda(X, y, GAMMAS, CS, folds, launching=how, xp=xp)


if __name__ == "__main__":
    sys.exit(main())
