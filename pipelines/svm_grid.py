"""Grid search of a kernel SVM over C and gamma: ``python -m pipelines.svm_grid``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipelines.run import command
from pipelines.run.options import parse_options
from pipelines.search.svm_options import Options

if TYPE_CHECKING:
    from pipelines.run_folder.folder import RunFolder

COMMAND = "svm_grid"
DESCRIPTION = "Find C and gamma of a kernel SVM by cross-validation on a grid, on every worker."


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; give its exit status: 0, 1 (not finished) or 2 (bad input)."""
    return command.main(COMMAND, DESCRIPTION, Options, _run, argv)


def check(argv: Sequence[str]) -> None:
    """Raise InputError where a command line breaks a rule of its options; run nothing."""
    parse_options(Options, COMMAND, DESCRIPTION, argv)


def _run(options: Options, earlier: RunFolder | None, argv: list[str]) -> int:
    from pipelines.search.svm_run import run  # --help does not wait for it

    return run(COMMAND, options, earlier, argv)


if __name__ == "__main__":
    sys.exit(main())
