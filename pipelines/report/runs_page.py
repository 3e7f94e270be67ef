"""The page of the runs in a folder: a table with links, in which runs are ticked to compare."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import pandas as pd

from pipelines.errors import program
from pipelines.report.page import write_html
from pipelines.report.parts import MOST_ROWS, CommandLine, Listing, Section, Text
from pipelines.report.run_table import RunRow, score_columns, shortened_list
from pipelines.report.wording import duration
from pipelines.run_folder.names import REPORT

SCRIPT = "runs.js"


def write_runs_page(
    page: Path,
    folder: Path,
    rows: Sequence[RunRow],
    title: str,
    where: str,
    left_out: Sequence[str],
) -> Path:
    """Write the page of runs. Its script shows the command that compares the ticked runs.

    Parameters
    ----------
    page : Path
        HTML file to write.
    folder : Path
        Folder that was searched for runs.
    rows : sequence of RunRow
        The runs, in the order of the page.
    title : str
        Title of the page: the number of runs.
    where : str
        Conditions that the runs meet; empty for none.
    left_out : sequence of str
        A line for each run or folder that could not be read.

    Returns
    -------
    Path
        ``page``.

    Raises
    ------
    OSError
        The page cannot be written.
    """
    shown_rows = rows[:MOST_ROWS]
    words = f"In {folder}{f', where {where}' if where else ''}."
    if len(rows) > len(shown_rows):
        words += f" The first {len(shown_rows):,} of them are here; {program('runs')} lists all."
    instructions = Text(
        "Tick two runs or more: the command then says in one sentence which is better and whether "
        "that is sure, and shows the options in which they differ. Type it in the folder in which "
        "this page was written."
    )
    comparison = shlex.quote(str(page.with_name("comparison.html")))
    compare = f"{program('report')} --compare {comparison}"
    command = CommandLine(f"{compare} RUN RUN")
    # Links are relative to the page; paths in the command are relative to the current folder.
    pages = [Path(row.folder, REPORT) for row in shown_rows]
    links = [
        quote(os.path.relpath(file.resolve(), page.resolve().parent)) if file.is_file() else ""
        for file in pages
    ]
    return write_html(
        page,
        title=title,
        subtitle=words,
        warnings=[(f"Left out: {line}.", "") for line in shortened_list(left_out)],
        sections=[
            Section("compare", "Compare", [instructions, command]),
            Section("runs", "Runs", [listing_of_runs(shown_rows, links)]),
        ],
        figures={},
        script=SCRIPT,
        compare=compare,
        folders=[shlex.quote(row.folder) for row in shown_rows],
    )


def listing_of_runs(rows: Sequence[RunRow], links: Sequence[str]) -> Listing:
    """The table of runs; scores of each measure have columns of their own."""
    columns, formats = score_columns(rows)
    frame = pd.DataFrame(
        {
            "run": [row.name for row in rows],
            "started (UTC)": [row.started[:16].replace("T", " ") for row in rows],
            "command": [row.command for row in rows],
            "data": [row.data for row in rows],
            "best": [row.best for row in rows],
            **columns,
            "status": [row.status for row in rows],
            "time": pd.Series([row.seconds for row in rows], dtype=float),
        }
    )
    return Listing("Runs", frame.replace("", None), {**formats, "time": duration}, links)
