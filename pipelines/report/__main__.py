"""``python -m pipelines.report RUN [RUN...]``: redraw the pages of runs, or compare runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path


def main(argv: Sequence[str] | None = None) -> int:
    """Redraw each run folder's figures and page, or write a comparison; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m pipelines.report",
        description="Redraw the figures and the page (report.html) of each run folder.",
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a run folder")
    parser.add_argument(
        "--compare",
        type=Path,
        metavar="PAGE.html",
        help="redraw nothing, but set the runs side by side in this file",
    )
    given = parser.parse_args(argv)

    from pipelines.errors import InputError
    from pipelines.report.comparison import write_comparison
    from pipelines.report.page import write_page
    from pipelines.say import aloud, complain, leave_quietly, take_any_terminal

    take_any_terminal()
    name, target = "RUN", None
    try:
        if given.compare:
            name, target = "--compare", given.compare
            aloud(str(write_comparison(given.runs, given.compare)))
            return 0
        for target in given.runs:
            aloud(str(write_page(target)))
        return 0
    except InputError as error:
        complain("report", str(error))
    except OSError as error:
        kind = "file" if given.compare else "folder"
        complain(
            "report",
            f"{name} must be a {kind} that can be written, got {str(target)!r} "
            f"({error.strerror or error}): name one in a place of your own",
        )
    finally:
        leave_quietly()
    return 2


if __name__ == "__main__":
    sys.exit(main())
