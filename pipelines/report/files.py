"""The files of a run, as its page leads to them."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from pipelines.report.table import Cell, Table, Value
from pipelines.run_folder import names

MOST_FILES = 500
CONTENT = {
    names.RECORD: "options, seed, versions, devices, times, the answer",
    names.JOURNAL: "every unit as it was done, with its rows",
    names.CELLS: "a row for each cell",
    names.CANDIDATES: "means of every candidate, best first",
    names.PREDICTIONS: "what was said of every test row",
    names.WRONG: "the images of the wrong test points",
    names.MODEL: "the best candidate, fitted on all training rows",
    names.PROBABILITIES: "calibrated probabilities of the test rows",
    names.MEMBERS: "the members and their errors",
    names.MEMBER_PROBABILITIES: "what every member said of the test rows",
    names.SIZES: "errors of subsets of the members",
    names.EXPLAINED: "certainty of the members, of the points that are drawn",
    names.RANKS: "the ranks of all nodes",
    names.ITERATIONS: "the change of every iteration",
    names.COMPARISON: "algorithms compared in pairs",
    names.LEARNING_CURVE: "scores on shares of the training rows",
    names.NESTED: "scores of the outer folds",
    names.RESIDUALS: "true and predicted numbers of the test rows",
    "performance.html": "Dask's own page of the run",
}


def file_table(folder: Path) -> Table:
    """Name, size and content of each file, those with a content of their own first."""
    found = [
        path for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != names.REPORT and path.suffix != ".part"
    ]  # fmt: skip
    found.sort(key=lambda path: list(CONTENT).index(path.name) if path.name in CONTENT else 99)
    rows = [_row(path, folder) for path in found[:MOST_FILES]]
    return Table.of(("file", "size", "content"), rows)


def _row(path: Path, folder: Path) -> list[Value]:
    name, size = path.relative_to(folder).as_posix(), path.stat().st_size
    content = CONTENT.get(path.name, "a figure" if path.suffix in (".svg", ".png") else "")
    shown = f"{size:,} B" if size < 1000 else f"{size / 1000:,.1f} kB"
    return [Cell(name, name, quote(name)), (size, shown), content]
