"""Shuffled batches beside torch's ``DataLoader``: ``python -m benchmarks.batches``.

Epochs of bytes as large as MNIST's, in memory, in batches by ``Batches`` and by a ``DataLoader``
over the same tensors, in turn in one process and on one thread; the first turn is not counted.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import add_count, add_results, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from pipelines.run.options import OneLineParser

COMMAND = "benchmarks.batches"
N_FEATURES = 784


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    add_count(parser, "--rows", 60_000)
    add_count(parser, "--batch-size", 128, "rows of a batch")
    add_count(parser, "--repeat", 5, "epochs of each")
    add_results(parser)
    return parser


def _run(options: argparse.Namespace) -> None:
    from benchmarks.machine import in_words

    rates = measure(options.rows, options.batch_size, options.repeat)
    median = {name: float(np.median(values)) for name, values in rates.items()}
    record = stamped(
        "batches",
        n_rows=options.rows,
        batch_size=options.batch_size,
        lines=[{"line": name, "rows_a_second": values} for name, values in rates.items()],
        ratio=median["Batches"] / median["DataLoader"],
    )
    table = markdown_table(
        ["", "million rows a second, CPU", "against DataLoader"],
        [
            [name, f"{value / 1e6:.2f}", f"{value / median['DataLoader']:.1f} ×"]
            for name, value in median.items()
        ],
    )
    text = (
        f"# Shuffled batches, {record['date']}\n\n{options.rows:,} rows of {N_FEATURES} bytes in "
        f"memory, batches of {options.batch_size}, medians of {options.repeat} epochs, rows a "
        f"second of CPU time on one thread.\n\n{table}\n\n{in_words(record['machine'])}. "
        f"Repeat it: `python -m {COMMAND}`.\n"
    )
    print(f"\n{text}\nkept in {keep(Path(options.results), 'batches', record, text)}")


def measure(n_rows: int, batch_size: int, repeat: int) -> dict[str, list[float]]:
    """Rows a second of CPU time of each, every epoch but the first."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    from pipelines.data.batches import Batches

    generator = np.random.default_rng(0)
    X = generator.integers(0, 256, (n_rows, N_FEATURES), dtype=np.uint8)
    y = generator.integers(0, 10, n_rows)
    tensors = TensorDataset(torch.from_numpy(X), torch.from_numpy(y))
    ways: dict[str, Iterable[Any]] = {
        "Batches": Batches({"X": X, "y": y}, batch_size=batch_size, seed=0),
        "DataLoader": DataLoader(tensors, batch_size=batch_size, shuffle=True),
    }
    rates: dict[str, list[float]] = {name: [] for name in ways}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for _ in range(repeat + 1):
            for name, batches in ways.items():
                began = time.process_time()
                for _batch in batches:
                    pass
                rates[name].append(n_rows / (time.process_time() - began))
    finally:
        torch.set_num_threads(threads)
    return {name: values[1:] for name, values in rates.items()}


if __name__ == "__main__":
    sys.exit(main())
