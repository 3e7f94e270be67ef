"""``python -m pipelines.report RUN [RUN...]``: redraw the page of each run folder."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path


def main(argv: Sequence[str] | None = None) -> int:
    """Redraw each run folder's figures and page; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m pipelines.report",
        description="Redraw the figures and the page (report.html) of each run folder.",
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a run folder")
    runs = parser.parse_args(argv).runs

    from pipelines.report.page import write_page
    from pipelines.report.run_folder import RunFolderError

    for folder in runs:
        try:
            print(write_page(folder))
        except RunFolderError as error:
            print(error, file=sys.stderr)
            return 2
        except OSError as error:
            reason = error.strerror or error
            print(
                f"RUN must be a folder that can be written, got {str(folder)!r} ({reason}): "
                "copy the run folder to a place of your own and name the copy",
                file=sys.stderr,
            )
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
