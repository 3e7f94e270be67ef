"""CPU seconds of our path and of one ``SVC`` after the other, on the same folds and grid."""

from __future__ import annotations

import json
import os
import resource
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.tables.tables import make_table

# The grid of C.-W. Hsu, C.-C. Chang, C.-J. Lin, "A practical guide to support vector
# classification", 2003, in 24 steps each.
CS = np.logspace(-5, 15, 24, base=2)
GAMMAS = np.logspace(-15, 3, 24, base=2)


def sample(n: int) -> np.ndarray:
    """``n`` numbers of the 24: the middles of as many equal parts."""
    return ((np.arange(n) + 0.5) * CS.size / n).astype(np.int64)


def measure_table(name: str, rows: int | None, n: int, cap: int, n_folds: int) -> dict[str, Any]:
    """Both on one table.

    Ours runs n gammas with all 24 C on every fold, on one thread.  The peer runs n x n
    cells of the first fold, each in a process of its own that is ended after ``cap`` CPU
    seconds; either is projected to the whole grid.
    """
    from sklearn.model_selection import StratifiedKFold

    from pipelines.svm.cpu.path import cross_validate_path

    X, y = make_table(name, rows)
    folds = list(StratifiedKFold(n_folds, shuffle=True, random_state=0).split(X, y))
    some = sample(n)
    began = time.process_time()
    ours = cross_validate_path(X, y, GAMMAS[some].tolist(), CS.tolist(), folds, n_threads=1)
    seconds = time.process_time() - began
    train, validation = folds[0]
    cells = [
        _peer_cell(X, y, train, validation, CS[c], GAMMAS[g], cap)
        | {"C": CS[c], "gamma": GAMMAS[g]}
        for g in some
        for c in some
    ]
    errors = [int(ours.n_errors[g, c, 0]) for g in range(n) for c in some]
    differences = [
        abs(cell["errors"] - error)
        for cell, error in zip(cells, errors, strict=True)
        if cell["errors"] is not None
    ]
    whole = CS.size * GAMMAS.size * n_folds
    return {
        "table": name,
        "rows": len(X),
        "features": X.shape[1],
        "classes": len(np.unique(y)),
        "ours_seconds": seconds * GAMMAS.size / n,
        "peer_seconds": sum(cell["seconds"] for cell in cells) * whole / len(cells),
        "ours_unconverged": int((ours.status != 0).sum()),
        "ours_cells": int(ours.status.size),
        "peer_capped": sum(cell["errors"] is None for cell in cells),
        "peer_cells": len(cells),
        "cells_that_differ": sum(one > 0 for one in differences),
        "largest_difference_rows": max(differences, default=0),
        "ours_fit_seconds": ours.fit_seconds[:, :, 0].tolist(),
        "ours_iterations": ours.n_iterations[:, :, 0].tolist(),
        "cells": cells,
    }


def _peer_cell(
    X: np.ndarray,
    y: np.ndarray,
    train: np.ndarray,
    validation: np.ndarray,
    C: float,
    gamma: float,
    cap: int,
) -> dict[str, Any]:
    """Seconds and errors of one ``SVC``; errors None where it was ended at ``cap`` seconds."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (cap, cap))
            os.write(writing, json.dumps(_fit_peer(X, y, train, validation, C, gamma)).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as found:
        said = found.read()
    os.waitpid(child, 0)
    return json.loads(said) if said else {"seconds": float(cap), "errors": None}


def _fit_peer(
    X: np.ndarray,
    y: np.ndarray,
    train: np.ndarray,
    validation: np.ndarray,
    C: float,
    gamma: float,
) -> dict[str, Any]:
    from sklearn.svm import SVC

    began = time.process_time()
    peer = SVC(C=C, gamma=gamma, cache_size=1000).fit(X[train], y[train])
    errors = int((peer.predict(X[validation]) != y[validation]).sum())
    return {"seconds": time.process_time() - began, "errors": errors}


def warm_up(names: Sequence[str]) -> None:
    """Compile what will be timed; and let children find what they need imported."""
    import sklearn.svm  # noqa: F401

    from pipelines.svm.cpu.path import cross_validate_path

    X, y = make_table(names[0], 600)
    train, validation = np.arange(400), np.arange(400, 600)
    Cs = np.logspace(-1, 5, 8)
    cross_validate_path(X, y, [0.3], Cs.tolist(), [(train, validation)], n_threads=1)
