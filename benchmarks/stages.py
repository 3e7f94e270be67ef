"""What stages save and cost: ``python -m benchmarks.stages``.

One network of eight layers trained whole in one process and cut in two, each half in a process of
its own on a local cluster: the memory of a process at its peak above what it had before, and the
share of a step in which a rank waits, beside that of the schedule alone.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.command import add_count, add_results, exit_status
from benchmarks.keep import keep, stamped
from pipelines.run.options import OneLineParser

COMMAND = "benchmarks.stages"
N_LAYERS, N_INPUTS, N_CLASSES = 8, 64, 10


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    add_count(parser, "--units", 4096, "units of a layer; 4096 make a network of 400 MB")
    add_count(parser, "--rows", 1024, "rows of an epoch")
    add_count(parser, "--epochs", 3, "epochs, the first of which is not timed")
    add_count(parser, "--batch-size", 256, "rows of a step")
    add_count(parser, "--microbatches", 8, "of a batch")
    add_results(parser)
    return parser


def _run(options: argparse.Namespace) -> None:
    from pipelines.parallel.options import Formation, TrainingOptions

    settings: dict[str, Any] = {
        "network": "mlp",
        "epochs": options.epochs,
        "batch_size": options.batch_size,
    }
    whole = TrainingOptions(**settings)
    cut = TrainingOptions(**settings, stages=2, microbatches=options.microbatches)
    ways = {"whole": (whole, 1), "2 stages": (cut, 2)}
    processes = {name: _trained(options, *way) for name, way in ways.items()}
    (alone, halves) = processes.values()
    record = stamped(
        "stages",
        n_weights=alone["n_weights"],
        processes=processes,
        memory=halves["peak_above_start"] / alone["peak_above_start"],
        bubble=Formation.of(cut, 2).bubble,
        loss_difference=abs(halves["loss"] / alone["loss"] - 1),
    )
    text = page(record)
    path = keep(Path(options.results), "stages", record, text)
    print(f"\n{text}\nkept in {path}")


def _trained(options: argparse.Namespace, training: Any, n_ranks: int) -> dict[str, Any]:
    """Memory and times of a training on so many processes, each with a thread of its own."""
    from distributed import Client, LocalCluster

    from pipelines.parallel.elastic import train_on
    from pipelines.parallel.rank import TrainingPlan

    problem = _problem(options)
    processes: dict[str, Any] = {"n_workers": n_ranks, "threads_per_worker": 1}
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(**processes, dashboard_address=None, memory_limit=0) as cluster,
        Client(cluster) as client,
    ):
        before = client.run(_begin)
        plan = TrainingPlan(training, 1, None, str(Path(folder) / "training.safetensors"))
        how: dict[str, Any] = {"device": "cpu", "threads": 1, "open_ranks": False}
        progress, _, _ = train_on(client, problem, plan, n_ranks, lambda message: None, **how)
        peaks = client.run(_peak_bytes)
    timed = progress.epochs[1:] or progress.epochs
    waits, kinds = [], ("compute_seconds", "communication_seconds", "wait_seconds")
    for row in timed:
        waits.append(row["wait_seconds"] / sum(row[kind] for kind in kinds))
    return {
        "n_weights": sum(weights.numel() for weights in _weights(problem)),
        "peak_above_start": max(peaks[address] - before[address] for address in before),
        "seconds_of_an_epoch": statistics.median(sum(row[kind] for kind in kinds) for row in timed),
        "idle": statistics.median(waits),
        "loss": progress.epochs[-1]["loss"],
    }


def _problem(options: argparse.Namespace) -> Any:
    import numpy as np

    from pipelines.parallel.training_problem import CLASSES, NetworkDescription, TrainingProblem

    rng = np.random.default_rng(0)
    train, validation, test = (
        {
            "X": rng.random((n_rows, N_INPUTS), np.float32),
            "y": rng.integers(0, N_CLASSES, n_rows),
        }
        for n_rows in (options.rows, options.batch_size, options.batch_size)
    )
    network = NetworkDescription(
        "mlp", N_INPUTS, N_CLASSES, None, (options.units,) * (N_LAYERS - 1)
    )
    return TrainingProblem("random rows", CLASSES, network, train, validation, test)


def _weights(problem: Any) -> Any:
    from pipelines.parallel.deferred import DeferredNetwork

    return DeferredNetwork(lambda: problem.network.make(0)).network.parameters()


def _begin() -> int:
    """Bytes of this process once it has what every rank imports, and has computed with it."""
    import psutil
    import torch

    from pipelines.parallel.options import Formation, TrainingOptions
    from pipelines.parallel.stages import staged
    from pipelines.parallel.training_problem import NetworkDescription

    options = TrainingOptions(network="mlp", stages=2)
    network = staged(NetworkDescription("mlp", 8, 2), options, Formation.of(options, 2), 0).stage(0)
    network(torch.ones(8, 8)).sum().backward()
    return int(psutil.Process().memory_info().rss)


def _peak_bytes() -> int:
    """The most bytes that this process ever had in memory."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def page(record: dict[str, Any]) -> str:
    """The record as a page to read."""
    from benchmarks.machine import in_words

    alone, halves = (record["processes"][name] for name in ("whole", "2 stages"))
    parts = [
        f"# A network in two stages, {record['date']}",
        f"{N_LAYERS} layers, {record['n_weights'] / 1e6:.1f} million weights, "
        f"{record['n_weights'] * 4 / 1e6:.0f} MB, AdamW. Memory of a process at its peak above its "
        f"start: {alone['peak_above_start'] / 1e6:,.0f} MB whole, "
        f"{halves['peak_above_start'] / 1e6:,.0f} MB in two stages (the larger of both), "
        f"{record['memory']:.2f} of it.",
        f"A rank waits in {halves['idle']:.0%} of a step; by 1F1B's formula, for equal stages and "
        f"messages that take no time, in {record['bubble']:.0%}. An epoch takes "
        f"{alone['seconds_of_an_epoch']:.1f} s whole on one core, "
        f"{halves['seconds_of_an_epoch']:.1f} s in two stages on two. The losses differ by "
        f"{record['loss_difference']:.1e} of their size.",
        f"{in_words(record['machine'])}. Repeat it: `python -m {COMMAND}`.\n",
    ]
    return "\n\n".join(parts)


if __name__ == "__main__":
    sys.exit(main())
