"""The command line of ``pleasingly nn-bagging predict``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipelines.errors import InputError, program
from pipelines.run.options import OneLineParser
from pipelines.search.new_rows import (
    RULE_OF_PICTURES,
    add_what_is_asked,
    refuse_both_or_neither,
)

MOST_COPIES = 1000


def parse_predict(argv: Sequence[str]) -> dict[str, Any]:
    """Read the command line: what to ask of which run.

    Returns
    -------
    dict of ``run``, a Path; ``table``, a Path or None; ``image``, a list of Path; ``output``, a
    Path, or None for the folder of the table, or the current one; and ``copies``, a number

    Raises
    ------
    InputError
        An option is unknown, missing or unreadable.
    """
    parser = OneLineParser(
        prog=f"{program('nn_bagging')} predict",
        description="Ask a stored ensemble about the rows of a table, whose columns are found by "
        "name, or what images of your own show. " + RULE_OF_PICTURES,
        allow_abbrev=False,
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of a run of nn_bagging")
    add_what_is_asked(parser)
    parser.add_argument(
        "--output", type=Path, metavar="PATH",
        help="of a table: a .csv or .parquet file (default: NAME-predictions.csv beside it); of "
        "images: such a file, or a folder; figures NAME-certainty.svg and .png of the first 20 are "
        "put beside it (default: image-predictions.csv in the current folder)",
    )  # fmt: skip
    parser.add_argument(
        "--copies",
        type=int,
        default=0,
        metavar="N",
        help="of images: average over N copies, augmented as in the run's training, in place of "
        "the image as it is (default: 0, none)",
    )
    given = vars(parser.parse_args(argv))
    refuse_both_or_neither(given["table"], given["image"])
    if not 0 <= given["copies"] <= MOST_COPIES or (given["copies"] and given["table"]):
        raise InputError(
            f"--copies must be from 0 to {MOST_COPIES}, and goes with --image, got "
            f"{given['copies']}; leave it out"
        )
    return given
