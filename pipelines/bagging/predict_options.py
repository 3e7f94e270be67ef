"""The command line of ``python -m pipelines.nn_bagging predict``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipelines.errors import InputError
from pipelines.run.options import OneLineParser

RULE_OF_PICTURES = (
    "An image becomes grey; where its border is light it is inverted, as ink is bright in the "
    "data; the border's level is taken away. The ink is cut out, scaled to the size it has in the "
    "training images with its proportions kept, and put with its centre of mass in the centre."
)


def parse_predict(argv: Sequence[str]) -> dict[str, Any]:
    """Read the command line: what to ask of which run.

    Returns
    -------
    dict of ``run``, a Path; ``table``, a Path or None; ``image``, a list of Path; and ``output``,
    a Path, or None for the folder of each image, or of the table

    Raises
    ------
    InputError
        An option is unknown, missing or unreadable.
    """
    parser = OneLineParser(
        prog="python -m pipelines.nn_bagging predict",
        description="Ask a stored ensemble about the rows of a table, whose columns are found by "
        "name, or what images of your own show. " + RULE_OF_PICTURES,
        allow_abbrev=False,
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of a run of nn_bagging")
    parser.add_argument(
        "table", type=Path, nargs="?", metavar="TABLE", help="a file as --dataset takes it"
    )
    parser.add_argument(
        "--image", type=Path, nargs="+", action="extend", default=[], metavar="FILE",
        help="images that Pillow reads, such as .png and .jpg",
    )  # fmt: skip
    parser.add_argument(
        "--output", type=Path, metavar="PATH",
        help="of a table: a .csv or .parquet file (default: NAME-predictions.csv beside it); of "
        "images: the folder of NAME-certainty.svg and .png (default: beside each)",
    )  # fmt: skip
    given = vars(parser.parse_args(argv))
    if (given["table"] is None) == (not given["image"]):
        raise InputError("predict needs a TABLE or --image, one of them; --help lists the options")
    return given
