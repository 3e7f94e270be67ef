"""The files of a run's folder, and how a file is replaced."""

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

# What a later session, predict or the report reads, beside what a command declares; run.json has
# the digest of each.
READ_AGAIN = (JOURNAL, "*.parquet", WRONG, MODEL)

# How a fit ended, as the column "status" says it.
OK, NOT_CONVERGED, DIVERGED = "ok", "not converged", "diverged"  # a loss that is no number
FAILED = "failed"  # what the status of a cell without a score begins with; the reason follows


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield another name to write a file under, which takes its place once the disk has it all.

    A kill or a full disk leaves the file that was there; of two writers the last one wins. A
    symbolic link is replaced, and what it points to left alone: a folder may be another's.
    """
    unfinished = path.with_name(f".{path.name[:40]}.{uuid4().hex}.part")
    try:
        yield unfinished
        with unfinished.open("rb+") as file:
            os.fsync(file.fileno())  # or a machine without power may leave it empty
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
