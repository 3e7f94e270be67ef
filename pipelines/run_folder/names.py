"""File names of a run's folder, and how a file is replaced."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

if TYPE_CHECKING:
    import pandas as pd

RECORD = "run.json"
JOURNAL = "journal.jsonl"
CELLS = "cv_results.parquet"
CANDIDATES = "candidates.parquet"
PREDICTIONS = "test_predictions.parquet"
RESIDUALS = "test_residuals.parquet"
PROBABILITIES = "test_probabilities.parquet"
DECISION_VALUES = "test_decision_values.parquet"
IMPORTANCES = "importances.parquet"
PARAMETER_IMPORTANCES = "parameter_importances.parquet"
WRONG = "test_errors.npz"
MODEL = "model.safetensors"
REPORT = "report.html"

# Files that a later session, predict or the report reads, besides those that a command declares;
# run.json has their digests.
READ_AGAIN = (JOURNAL, "*.parquet", WRONG, MODEL)

# Values of the column "status": how a fit ended.
# Diverged: the loss is not a number.
OK, NOT_CONVERGED, DIVERGED = "ok", "not converged", "diverged"
FAILED = "failed"  # prefix of the status of a cell without a score; the reason follows


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary name to write a file under; it replaces ``path`` once it is all on disk.

    A kill or a full disk leaves the former file; of two writers the last one wins. A symbolic
    link is replaced, and its target left alone, as the folder may be another user's.
    """
    unfinished = path.with_name(f".{path.name[:40]}.{uuid4().hex}.part")
    try:
        yield unfinished
        with unfinished.open("rb+") as file:
            os.fsync(file.fileno())  # else a power failure may leave it empty
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def write_table(table: pd.DataFrame, path: Path, index: bool = True) -> None:
    """Write a Parquet table in one step, as ``replacing`` does."""
    with replacing(path) as file:
        table.to_parquet(file, index=index)


def write_arrays(path: Path, arrays: Mapping[str, Any], compressed: bool = True) -> None:
    """Write arrays by name as an npz file in one step, as ``replacing`` does."""
    import numpy as np

    with replacing(path) as unfinished, unfinished.open("wb") as file:
        (np.savez_compressed if compressed else np.savez)(file, allow_pickle=False, **arrays)
