"""Shuffled batches beside torch's DataLoader: ``python -m benchmarks.batches``.

Epochs of bytes in batches from each home of rows, from a DataLoader over a TensorDataset of the
same tensors, and pyarrow's plain scan of the same file, in turn in one process; the first turn is
not counted. Then the memory that an epoch of a large file takes, and how well its rows are mixed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.command import add_count, add_limit, add_results, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from pipelines.run.options import OneLineParser

COMMAND = "benchmarks.batches"
SCAN, PARQUET = "pyarrow's scan of the file", "Parquet"
N_TOGETHER = 4  # row groups in the buffer
WIDTH, MIB = 784, 2**20
TIMES_LARGER = 8  # than the buffer and two row groups: the file whose memory is measured


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _run(options: argparse.Namespace) -> None:
    record = measure(
        options.dataset, options.data_dir, options.limit, options.batch_size, options.repeat
    )
    record["memory"] = memory_of_an_epoch(N_TOGETHER, TIMES_LARGER)
    record["mixing"] = {
        str(n_together): mixing(n_together) for n_together in (1, N_TOGETHER, 16, 1000)
    }
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
    add_results(parser)
    return parser


def measure(
    dataset: str, data_dir: str, limit: int | None, batch_size: int, repeat: int
) -> dict[str, Any]:
    """Rows a second of each line, every epoch."""
    import numpy as np
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    from pipelines.data import load_dataset
    from pipelines.data.batches import Batches, HostRows, ParquetRows, write_rows
    from pipelines.data.batches.parquet import ROWS_OF_A_GROUP

    data = load_dataset(dataset, data_dir=data_dir, limit=limit)
    columns = {"X": np.ascontiguousarray(data.X_train), "y": data.y_train.astype(np.int64)}
    tensors = TensorDataset(*(torch.tensor(one) for one in columns.values()))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.parquet"
            n_on_disk = (N_TOGETHER + 2) * TIMES_LARGER * ROWS_OF_A_GROUP
            again = np.arange(n_on_disk) % len(tensors)
            write_rows(path, {name: one[again] for name, one in columns.items()})
            names = {name: name for name in columns}
            lines: dict[str, Iterable[Any]] = {
                "memory": Batches(HostRows(columns), batch_size=batch_size),
                "memory, prefetched": Batches(HostRows(columns), batch_size=batch_size, prefetch=4),
                SCAN: _Scan(path),
                PARQUET: Batches(ParquetRows(path, names, N_TOGETHER), batch_size=batch_size),
                "DataLoader": DataLoader(tensors, batch_size=batch_size, shuffle=True),
            }
            rates: dict[str, list[float]] = {name: [] for name in lines}
            for _ in range(repeat + 1):
                for name, batches in lines.items():
                    n_rows = n_on_disk if name in (SCAN, PARQUET) else len(tensors)
                    rates[name].append(n_rows / _seconds_of_an_epoch(batches))
    finally:
        torch.set_num_threads(threads)
    return stamped(
        "batches",
        dataset=dataset,
        n_rows=len(tensors),
        n_rows_on_disk=n_on_disk,
        batch_size=batch_size,
        lines=[{"line": name, "rows_a_second": some[1:]} for name, some in rates.items()],
    )


class _Scan:
    """Every row group of a file, read one after the other, and that is all."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __iter__(self) -> Iterator[Any]:
        import pyarrow.parquet as pq

        with pq.ParquetFile(self._path) as file:
            for group in range(file.metadata.num_row_groups):
                yield file.read_row_group(group, use_threads=False)


def memory_of_an_epoch(n_together: int, times: int) -> dict[str, float]:
    """Mebibytes by which a process grows in an epoch of a file larger than its limit.

    Parameters
    ----------
    n_together : row groups in the buffer; the limit is these and two more
    times : how much larger than the limit the file's rows are
    """
    import numpy as np

    from pipelines.data.batches import write_rows
    from pipelines.data.batches.parquet import ROWS_OF_A_GROUP

    n_rows = (n_together + 2) * times * ROWS_OF_A_GROUP
    rng = np.random.default_rng(0)
    few = rng.integers(0, 256, (ROWS_OF_A_GROUP, WIDTH), dtype=np.uint8)
    with tempfile.TemporaryDirectory() as folder:
        for name, rows in (("small", ROWS_OF_A_GROUP), ("large", n_rows)):
            X = np.resize(few, (rows, WIDTH))
            write_rows(Path(folder) / f"{name}.parquet", {"X": X, "y": np.arange(rows)})
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            grown = pool.submit(_growth, folder, n_together).result()
    limit = (n_together + 2) * ROWS_OF_A_GROUP * (WIDTH + 16)  # two int64: y, and the row's number
    return {"file": n_rows * WIDTH / MIB, "limit": limit / MIB, "grown": grown / MIB}


def _growth(folder: str, n_together: int) -> float:
    """Bytes by which this process grows at the most; what it loads first is not counted."""
    import pyarrow as pa

    from pipelines.data.batches import Batches, ParquetRows

    columns = {"X": "X", "y": "y"}

    def epoch(name: str) -> float:
        most = 0.0
        for _ in Batches(ParquetRows(f"{folder}/{name}.parquet", columns, n_together)):
            most = max(most, _resident())
        return most

    epoch("small")
    pa.default_memory_pool().release_unused()
    before = _resident()
    return epoch("large") - before


def _resident() -> float:
    import psutil

    return float(psutil.Process().memory_info().rss)


def mixing(n_together: int, n_groups: int = 64, batch_size: int = 128) -> float:
    """How unevenly batches of a file that is sorted by ten classes have them; a full shuffle: 1.

    Mean over an epoch's batches of Pearson's chi-square of the counts of classes, divided by its
    expectation.
    """
    import numpy as np

    from pipelines.data.batches.batches import generator_of
    from pipelines.data.batches.parquet import buffered_shuffle

    size, generator = 1024, generator_of(0, 0)
    groups = generator.permutation(n_groups)
    held, order = np.empty(0, np.int64), []
    for i, places in enumerate(buffered_shuffle([size] * n_groups, n_together, generator)):
        order.append(held[places])
        if i < n_groups:
            rows = np.arange(groups[i] * size, (groups[i] + 1) * size)
            held[places] = rows[: len(places)]
            held = np.concatenate([held, rows[len(places) :]])
    classes = np.concatenate(order) * 10 // (n_groups * size)
    batches = classes[: len(classes) // batch_size * batch_size].reshape(-1, batch_size)
    counts = np.stack([(batches == c).sum(1) for c in range(10)], axis=1)
    expected = batch_size / 10
    return float((((counts - expected) ** 2 / expected).sum(1) / 9).mean())


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
        f"{record['batch_size']}, in turn, torch with one thread.\n\n{table}\n\n"
        f"On disk are {record['n_rows_on_disk']:,} rows, these again and again: {TIMES_LARGER} "
        f"times the buffer and two row groups. Against the scan of the file Parquet's batches come "
        f"at {_of_the_scan(record):.0%} of its speed (median of turns); a thread decodes them.\n\n"
        f"{_memory_and_mixing(record)}"
        f"{in_words(record['machine'])}. Repeat it: `python -m {COMMAND}`.\n"
    )


def _of_the_scan(record: dict[str, Any]) -> float:
    """Speed of Parquet's batches as a share of the scan's, turn by turn."""
    rates = {line["line"]: line["rows_a_second"] for line in record["lines"]}
    return statistics.median(
        ours / plain for ours, plain in zip(rates[PARQUET], rates[SCAN], strict=True)
    )


def _memory_and_mixing(record: dict[str, Any]) -> str:
    memory, mixed = record["memory"], record["mixing"]
    parts = [f"{name} groups {value:.1f}" for name, value in mixed.items()]
    return (
        f"An epoch of a file of {memory['file']:.0f} MiB of rows made a process grow by "
        f"{memory['grown']:.0f} MiB; a buffer of {N_TOGETHER} row groups and two more are "
        f"{memory['limit']:.0f} MiB.\n\n"
        "A file sorted by ten classes, 64 row groups, batches of 128: how unevenly they have the "
        f"classes, 1 for a full shuffle, by the groups in the buffer: {', '.join(parts)}.\n\n"
    )


if __name__ == "__main__":
    sys.exit(main())
