"""What a run of ``pagerank`` left in its folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from pipelines.run_folder import names
from pipelines.run_folder.columns import Iteration
from pipelines.run_folder.reading import Run, Unit, read_run
from pipelines.run_folder.records.pagerank import GraphRecord
from pipelines.run_folder.tables import read_table

PLACE = ("variant",)


@dataclass(frozen=True)
class GraphRun(Run[GraphRecord]):
    """A run of PageRank: ``cells`` has a row for each variant, ``iterations`` one for each step."""

    iterations: pd.DataFrame


def read_graph_run(folder: Path) -> GraphRun:
    """Read the folder of a run of ``pagerank``; raises what ``read_run`` raises."""
    run = read_run(folder, place=PLACE, cells_file=names.VARIANTS)
    iterations = read_table(run.path / names.ITERATIONS, Iteration)
    return GraphRun(
        **vars(run), iterations=_iterations_of(run.units) if iterations is None else iterations
    )


def _iterations_of(units: tuple[Unit, ...]) -> pd.DataFrame:
    """The iterations of a run that ended before it wrote their table."""
    found = [
        (row["variant"], i + 1, change, seconds)
        for unit in units
        for row in unit.rows
        for i, (change, seconds) in enumerate(
            zip(row.get("changes", ()), row.get("seconds", ()), strict=False)
        )
    ]
    return pd.DataFrame(found, columns=list(Iteration.columns()))
