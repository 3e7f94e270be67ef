"""The options of ``nn_bagging``, beside those that every command shares."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.run.options import RunOptions, at_least, option


def _rows(text: str) -> str | None:
    parts = text.split(",")
    return None if all(part.strip().isdecimal() for part in parts) else "rows such as 7,18"


def _positive(value: float) -> str | None:
    return None if 0 < value < 1e6 else "above 0 and below 1000000"


@dataclass(frozen=True)
class Options(RunOptions):
    """Options of ``nn_bagging``."""

    n_bootstrap: int = option(
        12, "members of the ensemble, each on a bootstrap sample of its own",
        parse=int, check=at_least(1), metavar="N",
    )  # fmt: skip
    n_tuning: int = option(
        12, "candidates that the random search of each member tries",
        parse=int, check=at_least(1), metavar="N",
    )  # fmt: skip
    folds: int = option(
        5, "folds of the cross-validation", parse=int, check=at_least(2), metavar="N"
    )
    space: str = option(
        "auto",
        "where candidates are drawn from: small, study, mlp or a .yaml file; auto takes small "
        "for images and mlp for tables",
        metavar="NAME|FILE", path="file",
    )  # fmt: skip
    batch_size: int = option(
        10, "rows of a step of training", parse=int, check=at_least(1), metavar="N"
    )
    max_epochs: int = option(
        20, "most epochs of a network; it ends earlier when its loss falls by less than a fifth",
        parse=int, check=at_least(1), metavar="N",
    )  # fmt: skip
    precision: str = option("fp32", "of products on a GPU", choices=("fp32", "tf32"))
    memory: float | None = option(
        None,
        "GiB of a worker's device that training may take (default: 90 % of a GPU, no limit on "
        "a CPU)",
        parse=float, check=_positive, metavar="GIB", changes_results=False,
    )  # fmt: skip
    explain: str | None = option(
        None, "test rows whose certainty is drawn, such as 7,18", check=_rows, metavar="ROWS",
        changes_results=False,
    )  # fmt: skip
    image: tuple[str, ...] | None = option(
        None, "pictures of your own that the ensemble is asked about", nargs="+", metavar="FILE",
        path="file",
    )  # fmt: skip
