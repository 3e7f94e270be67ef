"""The command ``pleasingly runs [DIR]``: a table of runs as text, as CSV or as a page."""

from __future__ import annotations

import csv
import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from pipelines.errors import InputError, opt
from pipelines.run.options import argument, list_option, option, parse_options

if TYPE_CHECKING:
    from pipelines.report.run_table import RunRow

DESCRIPTION = (
    "List the runs in a folder, the newest first, from run.json alone: what ran when on which "
    "data, the best candidate, its cross-validated score, the test error, the status and the time."
)
EXAMPLES = (
    "results --sort test_error",
    '--where "test_error < 2 %" --where "command == svm-grid" --where "started >= 2026-11-20"',
    "results --page runs.html",
)
GAP = 2  # characters between columns
# Columns whose cells may be broken over lines, and their minimum widths in characters.
BROKEN = {"name": 16, "started (UTC)": 10, "data": 9, "best": 18, "cv": 12, "test": 12}
NUMBERS = ("cv error", "test error", "time")
LEFT_OUT_FIRST = ("time", "command", "data", "started (UTC)", "best", "status")


@dataclass(frozen=True)
class Options:
    """Options of ``runs``."""

    folder: Path = argument(
        "DIR", "folder that holds runs, at any depth (default: results)", default=Path("results")
    )
    where: tuple[str, ...] = list_option(
        (),
        "only runs that meet this condition: a column, a comparison and a value, such as "
        '"test_error < 0.02", "data == digits", "name == svm_*", "seconds < 10 min"; more than one '
        "must all hold. Columns: name, started (UTC), command, data, n_train, best, measure, "
        "cv_error, cv_score, cv_std, test_error, test_score, status, seconds, workers, folder",
        metavar="CONDITION",
    )
    sort: str | None = option(
        None, "column to sort by, the smallest first (default: the newest first)", metavar="COLUMN"
    )
    reverse: bool = option(False, "turn the order round")
    format: str = option("text", "of the table that is printed", choices=("text", "csv"))
    page: Path | None = option(
        None,
        "write a page in place of the table, on which runs are ticked to be compared",
        parse=Path,
        metavar="FILE.html",
    )

    def check(self) -> None:
        """Refuse a page together with another format."""
        if self.page is not None and self.format != "text":
            raise InputError(
                f"{opt('page')} must stand without {opt('format')}, got both; leave one of them out"
            )


def main(argv: Sequence[str] | None = None) -> int:
    """List the runs in a folder.

    Returns
    -------
    int
        Exit status: 0, or 2 for bad input or a page that cannot be written.
    """
    from pipelines.console import echo, flush_and_exit, phase, print_error, take_any_terminal

    take_any_terminal()
    options = None
    try:
        options, _ = parse_options(Options, "runs", DESCRIPTION, argv, EXAMPLES)
        from pipelines.report import matplotlib_imported, run_table
        from pipelines.report.wording import count

        conditions = [run_table.Condition.parse(text) for text in options.where]
        sort = None if options.sort is None else run_table.column_named(options.sort, "sort")
        complain = partial(print_error, "runs")
        with phase(complain, f"reading the folders in {options.folder}"):
            rows, unreadable = run_table.read_rows(options.folder)
        for line in run_table.shortened_list(unreadable):
            complain(f"left out: {line}")
        for condition in conditions:
            if n_without := sum(getattr(row, condition.column) in (None, "") for row in rows):
                complain(f"left out: {count(n_without, 'run')} without a {condition.column}")
        chosen_rows = run_table.select_runs(rows, conditions, sort, options.reverse)
        count_text = f"{len(chosen_rows):,} of " * bool(conditions) + count(len(rows), "run")
        if not rows:
            complain(f"there is no run in {options.folder}; a command writes one with --results")
        if options.page is not None:
            with matplotlib_imported():
                from pipelines.report.runs_page import write_runs_page
            words = " and ".join(options.where)
            write_runs_page(
                options.page, options.folder, chosen_rows, count_text, words, unreadable
            )
            echo(str(options.page))
        elif options.format == "csv":
            write_csv(chosen_rows, sys.stdout)
        else:
            for line in text_table(chosen_rows, window_width()) if chosen_rows else []:
                echo(line)
            echo(count_text)
        return 0
    except InputError as error:
        print_error("runs", error.flagged())
    except ImportError as error:
        print_error("runs", str(error))
    except OSError as error:
        page = options and str(options.page)
        print_error(
            "runs",
            f"--page must be a file that can be written, got {page!r} "
            f"({error.strerror or error}): name one in a place of your own",
        )
    finally:
        flush_and_exit()
    return 2


def window_width() -> int:
    """Characters that fit on a line: of the terminal that one of the streams is connected to."""
    # shutil asks stdout only, which is a pipe in ``pleasingly runs | less``. COLUMNS overrides the
    # width of the terminal, as in other programs.
    for stream in (sys.__stdout__, sys.__stderr__, sys.__stdin__):
        with suppress(AttributeError, OSError, ValueError):
            if "COLUMNS" not in os.environ and stream is not None:
                return os.get_terminal_size(stream.fileno()).columns
    return shutil.get_terminal_size().columns


def write_csv(rows: Sequence[RunRow], file: TextIO) -> None:
    """Write runs as CSV, with all digits of numbers and with errors as fractions."""
    from pipelines.console import printable
    from pipelines.report.run_table import COLUMNS

    writer = csv.writer(file, lineterminator="\n")
    with suppress(BrokenPipeError):
        writer.writerow(COLUMNS)
        for row in rows:
            values = asdict(row).values()
            writer.writerow([printable(v) if isinstance(v, str) else v for v in values])
        file.flush()


def text_table(rows: Sequence[RunRow], width: int) -> list[str]:
    """Lines of a text table of runs.

    Cells of the columns in ``BROKEN`` may go over several lines. If that is not enough, columns are
    left out in the order of ``LEFT_OUT_FIRST``, and a last line names them.

    Parameters
    ----------
    rows : sequence of RunRow
    width : int
        Characters that fit on a line.

    Returns
    -------
    list of str
    """
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from pipelines.console import printable

    columns = text_columns(rows)
    full_widths = {head: max(map(cell_len, (head, *cells))) for head, cells in columns.items()}
    widths = {head: min(BROKEN.get(head, width), full_widths[head]) for head in columns}

    def room() -> int:
        return width - sum(widths[head] + GAP for head in columns) + GAP

    left_out = []
    for head in LEFT_OUT_FIRST:
        if room() < 0:
            left_out.append(head)
            del columns[head]
    for _ in range(max(room(), 0)):  # one character at a time, for the column that lacks most
        widths[max(columns, key=lambda head: full_widths[head] - widths[head])] += 1
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="")
    for head in columns:
        side: Any = "right" if head in NUMBERS else "left"
        column_width = min(widths[head], full_widths[head])
        table.add_column(head, overflow="fold", width=column_width, justify=side)
    for cells in zip(*columns.values(), strict=True):
        table.add_row(*[Text(printable(cell)) for cell in cells])
    console = Console(file=StringIO(), width=width, color_system=None)
    with console.capture() as capture:
        console.print(table)
    lines = [line.rstrip() for line in capture.get().splitlines()]
    if left_out:
        lines.append(
            f"(no room in {width} letters for {', '.join(left_out)}: --format csv has all columns)"
        )
    return lines


def text_columns(rows: Sequence[RunRow]) -> dict[str, list[str]]:
    """Cells of the text table, by the headings of its columns.

    If a run has another score than the error, every cell names its measure.
    """
    from pipelines.report.run_table import EMPTY
    from pipelines.report.wording import duration, percent
    from pipelines.run_folder.measures import Measure

    def score_text(measure: str, error: float | None, score: float | None) -> str:
        if error is not None:
            return percent(error) if are_errors else f"error {percent(error)}"
        text = Measure(measure, is_error=False, is_loss=False).text(score)
        return EMPTY if score is None else f"{measure} {text}"

    are_errors = all(row.cv_score is row.test_score is None for row in rows)
    error = " error" if are_errors else ""
    columns = {
        "name": [row.name for row in rows],
        "started (UTC)": [row.started[:16].replace("T", " ") for row in rows],
        "command": [row.command for row in rows],
        "data": [row.data for row in rows],
        "best": [row.best for row in rows],
        f"cv{error}": [score_text(row.measure, row.cv_error, row.cv_score) for row in rows],
        f"test{error}": [score_text(row.measure, row.test_error, row.test_score) for row in rows],
        "status": [row.status for row in rows],
        "time": [duration(row.seconds) for row in rows],
    }
    return {head: [cell or EMPTY for cell in cells] for head, cells in columns.items()}


if __name__ == "__main__":
    sys.exit(main())
