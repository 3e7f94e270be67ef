"""The command ``pleasingly report RUN [RUN...]``: redraw the pages of runs and compare runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.errors import InputError
from pipelines.report import matplotlib_imported
from pipelines.run.options import argument, option, parse_options

COMPARISON = "comparison.html"  # in the folder that holds the runs
DESCRIPTION = (
    "Redraw the figures and the page (report.html) of each run folder; of several runs write "
    f"{COMPARISON}, too, which sets them side by side."
)
EXAMPLES = (
    "results/svm_grid-20261120-130849",
    "results/svm_grid-20261120-130849 results/cross_validate-20261121-091500 --compare both.html",
)


@dataclass(frozen=True)
class Options:
    """Options of ``report``."""

    runs: tuple[Path, ...] = argument("RUN", "a run folder", takes_several=True)
    compare: Path | None = option(
        None,
        "redraw nothing, but set the runs side by side in this file (without it: "
        f"{COMPARISON} in the folder that holds the runs)",
        parse=Path,
        metavar="PAGE.html",
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Redraw the figures and the page of each run folder, and compare several runs.

    Returns
    -------
    int
        Exit status: 0, or 2 where a run cannot be read or a page cannot be written.
    """
    from pipelines.console import echo, flush_and_exit, print_error, take_any_terminal

    take_any_terminal()
    name, path_type, target = "RUN", "folder", None
    try:
        options, _ = parse_options(Options, "report", DESCRIPTION, argv, EXAMPLES)
        with matplotlib_imported():
            from pipelines.report.comparison import distinct_paths, write_comparison
            from pipelines.report.page import write_page
        paths = distinct_paths(options.runs)
        for target in options.runs if options.compare is None else []:
            echo(str(write_page(target)))
        target = options.compare
        if target is None and len(options.runs) > 1:
            target = Path(os.path.commonpath([run.parent for run in paths])) / COMPARISON
        if target is not None:
            name, path_type = "--compare", "file"
            echo(str(write_comparison(options.runs, target)))
        return 0
    except InputError as error:
        print_error("report", error.flagged())
    except ImportError as error:
        print_error("report", str(error))
    except OSError as error:
        print_error(
            "report",
            f"{name} must be a {path_type} that can be written, got {str(target)!r} "
            f"({error.strerror or error}): name one in a place of your own",
        )
    finally:
        flush_and_exit()
    return 2


if __name__ == "__main__":
    sys.exit(main())
