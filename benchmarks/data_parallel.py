"""What ranks bring to one network: ``python -m benchmarks.data_parallel``.

Runs of ``pipelines.data_parallel`` on a local cluster, read from what they leave: speed-up and
communication of two ranks, gradients shared at each tenth step against each step.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.command import add_count, add_results, exit_status
from benchmarks.keep import keep, stamped
from pipelines.run.options import OneLineParser

COMMAND = "benchmarks.data_parallel"
PARTS = ("speed-up", "every-k")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    parser.add_argument("--data-dir", default="data", metavar="DIR", help="default: data")
    parser.add_argument("--only", action="append", choices=PARTS, help="this part alone")
    add_count(parser, "--repeat", 3, "trainings of each")
    add_count(parser, "--epochs", 6, "epochs of a training, the first is not counted")
    add_count(parser, "--limit", 8000, "rows of MNIST")
    add_results(parser)
    return parser


def _run(options: argparse.Namespace) -> None:

    parts = options.only or PARTS
    measured = {"speed-up": _speed_up, "every-k": _every_k}
    record = stamped(
        "data_parallel",
        limit=options.limit,
        **{name: measured[name](options) for name in PARTS if name in parts},
    )
    text = page(record)
    path = keep(Path(options.results), "data_parallel", record, text)
    print(f"\n{text}\nkept in {path}")


def _left_by(*arguments: str) -> tuple[Any, dict[str, Any]]:
    """The table of epochs, and the record, of a run with these arguments on two workers."""
    import pandas as pd

    from pipelines.data_parallel import main as data_parallel
    from pipelines.errors import InputError

    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "run"
        local = ("--cluster", "local", "--workers", "2", "--device", "cpu", "--dashboard", "off")
        if data_parallel([*arguments, *local, "--results", str(results)]):
            raise InputError("a run did not end, its message is above; put that right")
        table = pd.read_parquet(results / "epochs.parquet")
        return table, json.loads((results / "run.json").read_text())


def _mnist(options: argparse.Namespace) -> tuple[str, ...]:
    return ("--dataset", "mnist", "--data-dir", options.data_dir, "--limit", str(options.limit))


def _seconds_of_epochs(table: Any) -> Any:
    """Seconds of each epoch but the first of each training, in three parts and together."""
    parts = table.loc[table["epoch"] > 1].copy()
    parts["all"] = parts[["compute_seconds", "communication_seconds", "wait_seconds"]].sum(axis=1)
    return parts


def _speed_up(options: argparse.Namespace) -> dict[str, Any]:
    """The bagging network at batches of 128 on each rank, one rank and two."""
    table, _ = _left_by(
        "--network",
        "bagging",
        *_mnist(options),
        "--ranks",
        "1,2",
        "--batch-size",
        "128",
        "--epochs",
        str(options.epochs),
        "--repeats",
        str(options.repeat),
    )
    epochs = _seconds_of_epochs(table)
    seconds = {int(ranks): group["all"].median() for ranks, group in epochs.groupby("ranks")}
    two = epochs[epochs["ranks"] == 2]
    share = (two["communication_seconds"] / two["all"]).median()
    return {
        "seconds_of_an_epoch": {str(ranks): float(median) for ranks, median in seconds.items()},
        "fastest": {str(r): float(group["all"].min()) for r, group in epochs.groupby("ranks")},
        "speed_up": float(seconds[1] / seconds[2]),
        "communication": float(share),
    }


def _every_k(options: argparse.Namespace) -> dict[str, Any]:
    """Seconds until the approximator has a loss of 0.02, gradients shared at each step or tenth."""
    table, _ = _left_by(
        "--compare",
        "every-step,every-k=10",
        "--until-loss",
        "0.02",
        "--batch-size",
        "64",
        "--epochs",
        "200",
        "--repeats",
        str(options.repeat),
    )
    ends = table.groupby(["strategy", "repeat"])["seconds"].max()
    seconds = {name: [float(x) for x in group] for name, group in ends.groupby("strategy")}
    middle = ends.groupby("strategy").median()
    return {"seconds": seconds, "ratio": float(middle["every-k=10"] / middle["every-step"])}


def page(record: dict[str, Any]) -> str:
    """The record as a page to read."""
    from benchmarks.machine import in_words

    parts = [f"# One network on two workers, {record['date']}"]
    if result := record.get("speed-up"):
        one_rank, two_ranks = (result["seconds_of_an_epoch"][ranks] for ranks in "12")
        parts.append(
            f"Bagging network, MNIST, {record['limit']:,} rows, batches of 128 on each rank: an "
            f"epoch takes {one_rank:.2f} s on one rank and {two_ranks:.2f} s on two (medians), "
            f"{result['speed_up']:.2f} times as fast; {result['communication']:.0%} of an epoch on "
            "two is communication."
        )
    if result := record.get("every-k"):
        bands = {
            name: f"{statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})"
            for name, seconds in result["seconds"].items()
        }
        parts.append(
            "The approximator until a validation loss of 0.02, two ranks, median and range of the "
            f"repeats: gradients shared at each step {bands['every-step']}, at each tenth "
            f"{bands['every-k=10']}, {result['ratio']:.2f} of that."
        )
    parts.append(f"{in_words(record['machine'])}. Repeat it: `python -m {COMMAND}`.\n")
    return "\n\n".join(parts)


if __name__ == "__main__":
    sys.exit(main())
