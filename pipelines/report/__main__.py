"""``pleasingly report RUN [RUN...]``: redraw the pages of runs, and compare runs."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from pipelines.errors import InputError, program
from pipelines.report import matplotlib_imported

COMPARISON = "comparison.html"  # beside the runs


def main(argv: Sequence[str] | None = None) -> int:
    """Redraw each run folder's figures and page, and compare several runs; the exit status."""
    parser = argparse.ArgumentParser(
        prog=program("report"),
        usage="%(prog)s [options] RUN [RUN ...]",
        description="Redraw the figures and the page (report.html) of each run folder; of several "
        f"runs write {COMPARISON}, too, which sets them side by side.",
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a run folder")
    parser.add_argument(
        "--compare",
        type=Path,
        metavar="PAGE.html",
        help="redraw nothing, but set the runs side by side in this file (without it: "
        f"{COMPARISON} in the folder that holds the runs)",
    )
    given = parser.parse_args(argv)

    from pipelines.console import echo, flush_and_exit, print_error, take_any_terminal

    try:
        with matplotlib_imported():
            from pipelines.report.comparison import distinct, write_comparison
            from pipelines.report.page import write_page
    except ImportError as error:
        print_error("report", str(error))
        return 2
    take_any_terminal()
    name, kind, target = "RUN", "folder", None
    try:
        paths = distinct(given.runs)
        for target in given.runs if given.compare is None else []:
            echo(str(write_page(target)))
        target = given.compare
        if target is None and len(given.runs) > 1:
            target = Path(os.path.commonpath([run.parent for run in paths])) / COMPARISON
        if target is not None:
            name, kind = "--compare", "file"
            echo(str(write_comparison(given.runs, target)))
        return 0
    except InputError as error:
        print_error("report", str(error))
    except OSError as error:
        print_error(
            "report",
            f"{name} must be a {kind} that can be written, got {str(target)!r} "
            f"({error.strerror or error}): name one in a place of your own",
        )
    finally:
        flush_and_exit()
    return 2


if __name__ == "__main__":
    sys.exit(main())
