"""Shuffled batches beside torch's DataLoader: ``python -m benchmarks.batches``.

Epochs of bytes in batches, one thread, from each home of rows and from a DataLoader over a
TensorDataset of the same tensors, in turn in one process; the first turn is not counted.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.command import add_count, add_limit, exit_status
from benchmarks.keep import RESULTS, keep, markdown_table
from pipelines.run.options import OneLineParser

COMMAND = "benchmarks.batches"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _run(options: argparse.Namespace) -> None:
    record = measure(
        options.dataset, options.data_dir, options.limit, options.batch_size, options.repeat
    )
    text = page(record)
    path = keep(Path(options.results), f"batches-{options.dataset}", record, text)
    print(f"\n{text}\nkept in {path}")


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    parser.add_argument("--dataset", choices=("digits", "mnist"), default="mnist")
    parser.add_argument("--data-dir", default="data", metavar="DIR", help="default: data")
    add_limit(parser)
    add_count(parser, "--batch-size", 128, "rows of a batch")
    add_count(parser, "--repeat", 5, "epochs of each")
    parser.add_argument("--results", default=RESULTS, metavar="DIR", help=f"default: {RESULTS}")
    return parser


def measure(
    dataset: str, data_dir: str, limit: int | None, batch_size: int, repeat: int
) -> dict[str, Any]:
    """Rows a second of each line, every epoch."""
    import numpy as np
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    from benchmarks.machine import describe_machine
    from pipelines.data import load_dataset
    from pipelines.data.batches import Batches, HostRows, ParquetRows, write_rows
    from pipelines.run.environment import commit, versions

    data = load_dataset(dataset, data_dir=data_dir, limit=limit)
    columns = {"X": np.ascontiguousarray(data.X_train), "y": data.y_train.astype(np.int64)}
    tensors = TensorDataset(*(torch.tensor(one) for one in columns.values()))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.parquet"
            write_rows(path, columns)
            names = {name: name for name in columns}
            lines: dict[str, Iterable[Any]] = {
                "memory": Batches(HostRows(columns), batch_size=batch_size),
                "memory, prefetched": Batches(HostRows(columns), batch_size=batch_size, prefetch=4),
                "Parquet": Batches(ParquetRows(path, names, 4), batch_size=batch_size),
                "DataLoader": DataLoader(tensors, batch_size=batch_size, shuffle=True),
            }
            rates: dict[str, list[float]] = {name: [] for name in lines}
            for _ in range(repeat + 1):
                for name, batches in lines.items():
                    rates[name].append(len(tensors) / _seconds_of_an_epoch(batches))
    finally:
        torch.set_num_threads(threads)
    return {
        "benchmark": "batches",
        "date": date.today().isoformat(),
        "dataset": dataset,
        "n_rows": len(tensors),
        "batch_size": batch_size,
        "lines": [{"line": name, "rows_a_second": some[1:]} for name, some in rates.items()],
        "machine": describe_machine(),
        "versions": versions(),
        "commit": commit(),
    }


def _seconds_of_an_epoch(batches: Iterable[Any]) -> float:
    began = time.perf_counter()
    for _ in batches:
        pass
    return time.perf_counter() - began


def page(record: dict[str, Any]) -> str:
    """The record as a page to read."""
    from benchmarks.machine import in_words

    middle = {line["line"]: statistics.median(line["rows_a_second"]) for line in record["lines"]}
    table = markdown_table(
        ["rows in", "million rows a second, median", "lowest to highest", "against DataLoader"],
        [
            [
                line["line"],
                f"{middle[line['line']] / 1e6:.3f}",
                f"{min(line['rows_a_second']) / 1e6:.3f} to {max(line['rows_a_second']) / 1e6:.3f}",
                f"{middle[line['line']] / middle['DataLoader']:.1f} ×",
            ]
            for line in record["lines"]
        ],
    )
    return (
        f"# Shuffled batches, {record['date']}\n\n"
        f"{record['dataset']}, {record['n_rows']:,} rows of bytes, batches of "
        f"{record['batch_size']}, one thread, in turn.\n\n{table}\n\n"
        f"{in_words(record['machine'])}. Repeat it: `python -m {COMMAND}`.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
