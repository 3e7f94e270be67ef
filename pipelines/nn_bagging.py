"""Bagging of neural networks: ``python -m pipelines.nn_bagging``.

``python -m pipelines.nn_bagging predict RUN --image FILE`` asks a stored ensemble.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipelines.bagging.bagging_options import Options
from pipelines.run import command
from pipelines.run.options import parse_options

if TYPE_CHECKING:
    from pipelines.run_folder.folder import RunFolder

COMMAND = "nn_bagging"
DESCRIPTION = (
    "Train an ensemble of neural networks, each on a bootstrap sample with a random search of its "
    "own, on every worker. To ask a stored ensemble: python -m pipelines.nn_bagging predict --help."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; give its exit status: 0, 1 (not finished) or 2 (bad input)."""
    argv = list(sys.argv[1:] if argv is None else argv)
    if argv[:1] == ["predict"]:
        return command.exit_status(COMMAND, lambda: _predict(argv[1:]))
    return command.main(COMMAND, DESCRIPTION, Options, _run, argv)


def check(argv: Sequence[str]) -> None:
    """Raise InputError where a command line breaks a rule of its options; run nothing."""
    parse_options(Options, COMMAND, DESCRIPTION, argv)


def _run(options: Options, earlier: RunFolder | None, argv: list[str]) -> int:
    from pipelines.bagging.bagging_run import run  # --help does not wait for it

    return run(COMMAND, options, earlier, argv)


def _predict(argv: list[str]) -> int:
    from pipelines.bagging.predict_options import parse_predict

    options = parse_predict(argv)
    from pipelines.bagging.predict import predict

    return predict(options)


if __name__ == "__main__":
    sys.exit(main())
