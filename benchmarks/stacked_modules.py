"""Folds of a CNN stacked by vmap, against a plain loop: ``python -m benchmarks.stacked_modules``.

The plain loop is what a user of PyTorch writes: for each fold a ``DataLoader``, ``torch.optim`` and
``OneCycleLR``. It begins with our first weights and takes rows in our orders, so that both come
to the same losses. CPU seconds of one thread, in turn, in one process.

``--study`` compares the study's networks, whose gradients are written out, with the same networks
trained as modules.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import add_count, add_turns, base_parser, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from pipelines.run.options import OneLineParser

COMMAND = "benchmarks.stacked_modules"
BATCHES, CHANNELS = (10, 16, 64), (4, 8, 16)
# Of the study: channels, side of the kernel, hidden units; the last is of --space study.
STUDY = ((5, 4, 40), (6, 5, 48), (0, 0, 64), (16, 5, 900))


def fold_by_fold(stack: Any, training: Any) -> list[list[float]]:
    """Train each network of a stack by a plain loop; the mean loss of each epoch of each."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    from pipelines.nn.modules import WARM_UP, seed_from
    from pipelines.nn.networks import as_network_takes, make_network

    candidate, rows = stack.candidate, stack.rows
    size = min(training.batch_size, stack.n_rows)
    n_rows = stack.n_rows // size * size
    losses: list[list[float]] = []
    for part in stack.parts:
        network = make_network(candidate, stack.inputs, seed_from(part.generator)).train()
        seed_from(part.generator), seed_from(part.generator)  # of draws and augmentation
        images = as_network_takes(part.scaled(rows.X.clone()), stack.inputs)
        dataset = TensorDataset(images, rows.one_hot.argmax(1))
        groups = [
            {"params": [one for one in network.parameters() if (one.ndim > 1) is decays],
             "weight_decay": training.weight_decay * decays}
            for decays in (True, False)
        ]  # fmt: skip
        optimizer = torch.optim.SGD(
            groups, candidate.learning_rate, candidate.momentum, nesterov=True
        )
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, candidate.learning_rate, pct_start=WARM_UP, cycle_momentum=False,
            total_steps=n_rows // size * training.max_epochs + 1,
        )  # fmt: skip
        criterion = torch.nn.CrossEntropyLoss(label_smoothing=training.label_smoothing)
        losses.append([])
        for _ in range(training.max_epochs):
            order = part.generator.permutation(part.rows)[:n_rows]
            total = 0.0
            for X, y in DataLoader(dataset, batch_size=size, sampler=order.tolist()):
                optimizer.zero_grad()
                loss = criterion(network(X), y)
                loss.backward()
                optimizer.step()
                schedule.step()
                total += loss.item()
            losses[-1].append(total / (n_rows // size))
    return losses


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _run(options: argparse.Namespace) -> None:
    import torch

    from pipelines.data import load_dataset
    from pipelines.data.bootstrap import draw_bootstrap
    from pipelines.data.placement import FoldedData
    from pipelines.nn.fit import place
    from pipelines.nn.inputs import Inputs
    from pipelines.nn.settings import Training
    from pipelines.nn.space import Candidate
    from pipelines.nn.tasks import generators_of

    torch.set_num_threads(1)
    dataset = load_dataset(options.dataset, data_dir=options.data_dir, limit=options.rows)
    data = FoldedData.of(dataset)
    inputs = Inputs(dataset.n_inputs, dataset.n_classes, dataset.image_shape)
    sample = draw_bootstrap(data.y, options.folds, np.random.default_rng(options.seed))
    drawn = [(sample.train(fold), sample.out_of_bag(fold)) for fold in range(options.folds)]
    n_rows = min(len(rows) for rows, _ in drawn)

    def place_stack(candidate: Candidate, training: Training) -> Any:
        generators = generators_of(options.seed, options.folds)
        return place(data, candidate, drawn, generators, inputs, training, n_rows)

    if options.study:
        _study(options, n_rows, place_stack)
        return
    found: list[dict[str, Any]] = []
    for batch_size in BATCHES:
        for n_channels in CHANNELS:
            training = Training.of(
                "cnn", n_rows, batch_size=batch_size, max_epochs=options.max_epochs
            )
            candidate = Candidate("cnn", 0, 0.01, 0.9, n_channels)

            by_us = partial(_by_us, candidate, training, place_stack)
            ways: dict[str, Callable[[], list[list[float]]]] = {
                "stacked": partial(by_us, True), "one by one": partial(by_us, False),
                "plain": partial(_plainly, candidate, training, place_stack),
            }  # fmt: skip
            seconds, losses = _in_turn(ways, options.repeat)
            median = {name: statistics.median(each) for name, each in seconds.items()}
            found.append({
                "batch_size": batch_size, "n_channels": n_channels, "cpu_seconds": seconds,
                "ratio": median["plain"] / median["stacked"],
                "ratio_one_by_one": median["plain"] / median["one by one"],
                "largest_difference": float(np.abs(losses["stacked"] - losses["plain"]).max()),
                "last_loss": float(losses["plain"][:, -1].mean()),
            })  # fmt: skip
            print(found[-1], flush=True)
    command = f"python -m {COMMAND} --dataset {options.dataset} --rows {options.rows} " + (
        f"--max-epochs {options.max_epochs} --repeat {options.repeat}"
    )
    record = stamped(COMMAND, command=command, rows=options.rows, folds=options.folds, found=found)
    table = markdown_table(
        ["batch", "channels", "plain", "stacked", "ratio", "one by one", "ratio", "difference"],
        [[
            str(one["batch_size"]), str(one["n_channels"]),
            *(f"{value:.2f}" for value in (
                statistics.median(one["cpu_seconds"]["plain"]),
                statistics.median(one["cpu_seconds"]["stacked"]), one["ratio"],
                statistics.median(one["cpu_seconds"]["one by one"]), one["ratio_one_by_one"],
            )),
            f"{one['largest_difference']:.1e}",
        ] for one in found],
    )  # fmt: skip
    text = (
        f"# {options.folds} folds of a small CNN, {options.dataset}, {record['date']}\n\n"
        f"`{command}`\n\nCPU seconds of one thread, medians of {options.repeat} turns. Difference: "
        f"the largest of the mean losses of {options.max_epochs} epochs of all folds, stacked "
        f"against plain.\n\n{table}\n"
    )
    name = f"stacked-modules-{options.dataset}"
    print(f"\n{text}\nkept in {keep(Path(options.results), name, record, text)}")


def _study(options: argparse.Namespace, n_rows: int, place: Any) -> None:
    from pipelines.nn.settings import Training
    from pipelines.nn.space import Candidate

    found, lines = [], []
    for n_channels, kernel_size, n_hidden in STUDY:
        network = "conv" if n_channels else "mlp"
        candidate = Candidate(network, n_hidden, 0.01, 0.4, n_channels, kernel_size)
        by_hand = Training.of(network, n_rows, max_epochs=options.max_epochs)
        module = Training.of(
            network, n_rows, batch_size=by_hand.batch_size, max_epochs=options.max_epochs,
            optimizer="sgd", schedule="none", label_smoothing=0.0, weight_decay=0.0,
        )  # fmt: skip
        seconds, _ = _in_turn(
            {
                "by hand": partial(_by_us, candidate, by_hand, place, True),
                "stacked": partial(_by_us, candidate, module, place, True),
                "one by one": partial(_by_us, candidate, module, place, False),
            },
            options.repeat,
        )
        own, stacked, alone = (statistics.median(each) for each in seconds.values())
        found.append({"candidate": candidate.parameters(), "cpu_seconds": seconds})
        lines.append([
            network, str(n_channels), str(kernel_size), str(n_hidden), f"{own:.2f}",
            f"{stacked:.2f}", f"{stacked / own:.2f}", f"{alone:.2f}", f"{alone / own:.2f}",
        ])  # fmt: skip
        print(lines[-1], flush=True)
    command = f"python -m {COMMAND} --study --rows {options.rows} --repeat {options.repeat}"
    record = stamped(COMMAND, command=command, rows=options.rows, found=found)
    table = markdown_table(
        ["network", "channels", "kernel", "hidden", "by hand", "vmap", "ratio", "one by one",
         "ratio"],
        lines,
    )  # fmt: skip
    text = (
        f"# The study's networks by hand and as modules, {options.dataset}, {record['date']}\n\n"
        f"`{command}`\n\n{options.folds} folds, batches of 10 rows. CPU seconds of one thread, "
        f"medians of {options.repeat} turns.\n\n{table}\n"
    )
    name = f"stacked-study-{options.dataset}"
    print(f"\n{text}\nkept in {keep(Path(options.results), name, record, text)}")


def _in_turn(
    ways: dict[str, Callable[[], list[list[float]]]], repeat: int
) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Return the CPU seconds of each way, every turn, and its losses."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    losses = {}
    for _ in range(repeat):
        for name, way in ways.items():
            began = time.process_time()
            losses[name] = np.array(way())
            seconds[name].append(time.process_time() - began)
    return seconds, losses


def _by_us(candidate: Any, training: Any, place: Any, together: bool) -> list[list[float]]:
    from pipelines.nn import modules
    from pipelines.nn.train import train

    modules.MOST_TOGETHER = 10**9 if together else 0
    trained = train(place(candidate, training), training, lambda *_: None)
    return [list(one.losses) for one in trained]


def _plainly(candidate: Any, training: Any, place: Any) -> list[list[float]]:
    return fold_by_fold(place(candidate, training), training)


def _parser() -> OneLineParser:
    parser = base_parser(COMMAND, __doc__, dataset="mnist", folds=5)
    add_count(parser, "--rows", 600, "training rows")
    add_count(parser, "--max-epochs", 1)
    parser.add_argument("--study", action="store_true", help="the study's networks, by hand")
    add_turns(parser, repeat=3)
    return parser


if __name__ == "__main__":
    sys.exit(main())
