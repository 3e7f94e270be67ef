"""What a run of ``pagerank`` left in its folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipelines.run_folder import names
from pipelines.run_folder.reading import (
    RunFolder,
    read_journal,
    read_record,
    read_table,
    rows_of,
    unit_of,
)

VARIANT_COLUMNS = ("variant", "iterations", "change", "bound", "status")
ITERATION_COLUMNS = ("variant", "iteration", "change", "seconds")


@dataclass(frozen=True)
class GraphRun(RunFolder):
    """A run of PageRank: ``cells`` has a row for each variant, ``iterations`` one for each step."""

    iterations: pd.DataFrame

    @property
    def n_folds(self) -> None:
        """PageRank has none."""

    @property
    def top(self) -> list[dict[str, Any]]:
        """The highest nodes, each with its rank."""
        return list(self.run.get("top") or [])

    @property
    def distribution(self) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of bins of ranks, and how many nodes are in each."""
        found = self.part("distribution")
        return np.array(found.get("bounds", ()), float), np.array(found.get("counts", ()), float)


def read_graph_run(folder: Path) -> GraphRun:
    """Read the folder of a run of ``pagerank``.

    Raises
    ------
    InputError
        There is no readable ``run.json``, or a file is damaged.
    """
    folder = Path(folder)
    journal = list(read_journal(folder / names.JOURNAL))
    rows = [
        {**row, "worker": entry.get("worker", "")} for entry in journal for row in rows_of(entry)
    ]
    cells = read_table(folder / names.VARIANTS, VARIANT_COLUMNS)
    iterations = read_table(folder / names.ITERATIONS, ITERATION_COLUMNS)
    if cells is None:
        cells = pd.DataFrame(rows).drop(columns=["changes", "seconds"], errors="ignore")
    if iterations is None:
        iterations = pd.DataFrame(
            [
                (row.get("variant"), i + 1, change, seconds)
                for row in rows
                for i, (change, seconds) in enumerate(
                    zip(row.get("changes", ()), row.get("seconds", ()), strict=False)
                )
            ],
            columns=list(ITERATION_COLUMNS),
        )
    return GraphRun(
        path=folder,
        run=read_record(folder),
        cells=cells.reindex(columns=[*dict.fromkeys([*cells.columns, *VARIANT_COLUMNS])]),
        candidates=pd.DataFrame(),
        units=tuple(sorted(map(unit_of, journal), key=lambda unit: unit.started)),
        predictions=None,
        wrong_images=None,
        iterations=iterations,
    )
