"""CPU seconds of our path and of peers' ``SVC`` one by one, on the same folds and grid."""

from __future__ import annotations

import json
import os
import resource
import time
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.tables.tables import make_table

# The grid of C.-W. Hsu, C.-C. Chang, C.-J. Lin, "A practical guide to support vector
# classification", 2003, in 24 steps each.
CS = np.logspace(-5, 15, 24, base=2)
GAMMAS = np.logspace(-15, 3, 24, base=2)

Fold = tuple[np.ndarray, np.ndarray]

# name -> module of its ``SVC``
PEERS = {"SVC": "sklearn.svm", "sklearnex": "sklearnex.svm"}


def sample(n: int) -> np.ndarray:
    """``n`` numbers of the 24: the middles of as many equal parts."""
    return ((np.arange(n) + 0.5) * CS.size / n).astype(np.int64)


def measure_table(name: str, rows: int | None, n: int, cap: int, n_folds: int) -> dict[str, Any]:
    """Both on one table.

    Ours runs n gammas with all 24 C on every fold, on one thread.  A peer runs n x n
    cells of the first fold, each in a process of its own that is ended after ``cap`` CPU
    seconds; all are projected to the whole grid.
    """
    from sklearn.model_selection import StratifiedKFold

    from pipelines.svm.cpu.path import cross_validate_path

    X, y = make_table(name, rows)
    folds = list(StratifiedKFold(n_folds, shuffle=True, random_state=0).split(X, y))
    some = sample(n)
    began = time.process_time()
    ours = cross_validate_path(X, y, GAMMAS[some].tolist(), CS.tolist(), folds, n_threads=1)
    seconds = time.process_time() - began
    errors = ours.n_errors[:, some, 0]
    return {
        "table": name,
        "rows": len(X),
        "features": X.shape[1],
        "classes": len(np.unique(y)),
        "ours_seconds": seconds * GAMMAS.size / n,
        "ours_unconverged": int((ours.status != 0).sum()),
        "ours_cells": int(ours.status.size),
        "ours_fit_seconds": ours.fit_seconds[:, :, 0].tolist(),
        "ours_iterations": ours.n_iterations[:, :, 0].tolist(),
        "peers": {
            peer: _measure_peer(module, X, y, folds[0], errors, some, cap, n_folds)
            for peer, module in PEERS.items()
        },
    }


def _measure_peer(
    module: str,
    X: np.ndarray,
    y: np.ndarray,
    fold: Fold,
    ours: np.ndarray,
    some: np.ndarray,
    cap: int,
    n_folds: int,
) -> dict[str, Any]:
    """Some cells of one peer; ``ours`` are our errors of them, of shape (n, n)."""
    cells = [
        measure_cell(module, X, y, fold, CS[c], GAMMAS[g], cap)
        | {"C": CS[c], "gamma": GAMMAS[g], "ours": int(ours[i, j])}
        for i, g in enumerate(some)
        for j, c in enumerate(some)
    ]
    differences = [
        abs(cell["errors"] - cell["ours"]) for cell in cells if cell["errors"] is not None
    ]
    whole = CS.size * GAMMAS.size * n_folds
    return {
        "seconds": sum(cell["seconds"] for cell in cells) * whole / len(cells),
        "capped": sum(cell["errors"] is None for cell in cells),
        "cells_that_differ": sum(one > 0 for one in differences),
        "largest_difference_rows": max(differences, default=0),
        "cells": cells,
    }


def measure_cell(
    module: str,
    X: np.ndarray,
    y: np.ndarray,
    fold: Fold,
    C: float,
    gamma: float,
    cap: int,
) -> dict[str, Any]:
    """Seconds and errors of one ``SVC``; errors None where it was ended at ``cap`` seconds."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (cap, cap))
            found = _fit_peer(module, X, y, fold, C, gamma)
            os.write(writing, json.dumps(found).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading) as said_by_child:
        said = said_by_child.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return {"seconds": float(cap), "errors": None, "iterations": None}
    if status:
        raise RuntimeError(f"SVC of {module} failed at C = {C}, gamma = {gamma}")
    answer: dict[str, Any] = json.loads(said)
    return answer


def _fit_peer(
    module: str,
    X: np.ndarray,
    y: np.ndarray,
    fold: Fold,
    C: float,
    gamma: float,
) -> dict[str, Any]:
    SVC, (train, validation) = import_module(module).SVC, fold
    began = time.process_time()
    peer = SVC(C=C, gamma=gamma, cache_size=1000).fit(X[train], y[train])
    errors = int((peer.predict(X[validation]) != y[validation]).sum())
    return {
        "seconds": time.process_time() - began,
        "errors": errors,
        "iterations": int(np.sum(peer.n_iter_)),
    }


def warm_up(names: Sequence[str]) -> None:
    """Compile what will be timed; and let children find what they need imported."""
    for module in PEERS.values():
        import_module(module)

    from pipelines.svm.cpu.path import cross_validate_path

    X, y = make_table(names[0], 600)
    train, validation = np.arange(400), np.arange(400, 600)
    Cs = np.logspace(-1, 5, 8)
    cross_validate_path(X, y, [0.3], Cs.tolist(), [(train, validation)], n_threads=1)
