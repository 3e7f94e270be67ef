"""Images that stay on disk beside their peers: ``python -m benchmarks.input_pipeline``.

A folder of JPEG images is read in batches by torch's ``DataLoader`` over torchvision's
``ImageFolder``, by ours in its first and later epochs, and from memory; then the command trains on
it, and the largest anonymous memory of each of its processes is sampled.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import add_count, add_results, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from pipelines.run.options import OneLineParser

COMMAND = "benchmarks.input_pipeline"
SECONDS_BETWEEN_SAMPLES = 0.05
LINES = {
    "peer": "DataLoader + ImageFolder",
    "first": "ours, first epoch",
    "second": "ours, second epoch",
    "memory": "ours, in memory",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    parser.add_argument("--gib", type=float, default=0.3, help="of decoded images (default: 0.3)")
    add_count(parser, "--side", 224, "pixels of an image's side")
    add_count(parser, "--batch-size", 128)
    add_count(parser, "--loader-workers", 2, "processes that decode")
    add_count(parser, "--repeat", 3, "turns of a line")
    add_count(parser, "--limit", 2048, "MiB that no process's anonymous memory may exceed")
    parser.add_argument("--folder", metavar="DIR", help="where images are made (default: TMPDIR)")
    add_results(parser)
    return parser


def _run(options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(dir=options.folder, ignore_cleanup_errors=True) as folder:
        images = Path(folder, "images")
        n_rows = make_images(images, options.gib, options.side)
        turns = [in_turn(images, Path(folder), options) for _ in range(options.repeat)]
        rates = {line: [turn[line] for turn in turns if line in turn] for line in LINES}
        record = stamped(
            "input_pipeline",
            gib=options.gib,
            rows=n_rows,
            side=options.side,
            loader_workers=options.loader_workers,
            rows_per_second={line: values for line, values in rates.items() if values},
            limit_mib=options.limit,
            training=trained(images, Path(folder), options),
        )
    path = keep(Path(options.results), "input-pipeline", record, page(record))
    print(f"\n{page(record)}\nkept in {path}")


def make_images(folder: Path, gib: float, side: int) -> int:
    """Make JPEG images of two classes; give their number."""
    from PIL import Image

    rng, n_rows = np.random.default_rng(0), int(gib * 2**30 / (3 * side**2))
    for i in range(n_rows):
        path = folder / f"class-{i % 2}" / f"{i}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        coarse = rng.integers(0, 200, (16, 16, 3), dtype=np.uint8) + np.uint8(55 * (i % 2))
        Image.fromarray(coarse).resize((side, side), Image.Resampling.BICUBIC).save(path)
    return n_rows


def in_turn(images: Path, folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """Rows a second of each line, once; batches are counted from the second on."""
    import psutil
    import torch
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder
    from torchvision.transforms import PILToTensor

    from pipelines.data.batches import Batches
    from pipelines.data.load import load_dataset
    from pipelines.data.stream.row_feed import RowFeed, StreamedBatches

    torch.set_num_threads(1)
    n_batch, n_workers = options.batch_size, options.loader_workers
    peer = DataLoader(
        ImageFolder(str(images), PILToTensor()), n_batch, shuffle=True, num_workers=n_workers
    )
    rates = {"peer": rate(len(y) for _, y in peer)}
    X = load_dataset(str(images), test_size=0.01, input="stream").X_train
    rows, cache = {"X": X, "y": np.arange(len(X))}, folder / "cache"
    feed = RowFeed([X], n_workers=n_workers, directory=str(cache))
    streamed = StreamedBatches(rows, feed, batch_size=n_batch)
    rates["first"], rates["second"] = (rate(_lengths(streamed)) for _ in range(2))
    if X.store.nbytes < psutil.virtual_memory().available // 4:
        (whole,) = feed.blocks(X, [np.arange(len(X))])
        batches = Batches({"X": whole, "y": rows["y"]}, batch_size=n_batch)
        rates["memory"] = rate(_lengths(batches))
    feed.close()
    shutil.rmtree(cache)
    print(", ".join(f"{LINES[line]} {value:,.0f} rows/s" for line, value in rates.items()))
    return rates


def _lengths(batches: Iterable[Any]) -> Iterator[int]:
    return (len(batch.rows) for batch in batches)


def rate(lengths: Iterator[int]) -> float:
    """Rows a second from the first batch on, with which processes have started."""
    next(lengths)
    began, n_rows = time.perf_counter(), sum(lengths)
    return n_rows / (time.perf_counter() - began)


def trained(images: Path, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Two epochs by the command on two ranks: their seconds, and the largest process."""
    import pandas as pd

    from pipelines.errors import InputError

    run = folder / "run"
    words = f"--network mlp --hidden 16 --epochs 2 --batch-size {options.batch_size // 2}"
    words += " --cluster local --workers 2 --device cpu --dashboard off --loader-workers 1 --quiet"
    words += f" --input stream --dataset {images} --cache-dir {folder / 'kept'} --results {run}"
    command = [sys.executable, "-m", "pipelines.data_parallel", *words.split()]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as program:
        largest = Largest(program.pid)
        if program.wait():
            raise InputError("a run did not end, its message is above; put that right")
        largest.stop()
    table = pd.read_parquet(run / "epochs.parquet")
    record = json.loads((run / "run.json").read_text())
    parts = ["compute_seconds", "communication_seconds", "wait_seconds"]
    return {
        "seconds_of_epochs": table[parts].sum(axis=1).tolist(),
        "n_train": record["dataset"]["n_train"],
        "largest_mib": largest.n_bytes / 2**20,
    }


class Largest:
    """The largest anonymous memory of a process and its descendants, sampled by a thread.

    Attributes
    ----------
    n_bytes : pages of files, such as those of the cache, are not counted: the system takes them
        back at any time
    """

    def __init__(self, pid: int) -> None:
        self.n_bytes, self._pid, self._ended = 0, pid, threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End sampling."""
        self._ended.set()
        self._thread.join()

    def _sample(self) -> None:
        import psutil

        while not self._ended.wait(SECONDS_BETWEEN_SAMPLES):
            with suppress(psutil.Error):
                root = psutil.Process(self._pid)
                for process in (root, *root.children(recursive=True)):
                    self.n_bytes = max(self.n_bytes, anonymous(process.pid))


def anonymous(pid: int) -> int:
    """Bytes of a process that no file backs, shared memory among them; 0 where it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    kinds = ("RssAnon", "RssShmem")
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith(kinds))


def page(record: dict[str, Any]) -> str:
    """The record as a page to read."""
    from benchmarks.machine import in_words

    rates = record["rows_per_second"]
    middle = {line: statistics.median(values) for line, values in rates.items()}
    ratios = {
        "first": ("peer", "of the peer"),
        "second": ("first", "of the first epoch"),
    }
    rows = []
    for line, values in rates.items():
        base, words = ratios.get(line, ("", ""))
        ratio = f"{middle[line] / middle[base]:.2f} {words}" if base else ""
        if line == "second" and "memory" in middle:
            ratio += f", {middle[line] / middle['memory']:.2f} of memory"
        band = f"{min(values):,.0f} to {max(values):,.0f}"
        rows.append([LINES[line], f"{middle[line]:,.0f}", band, ratio])
    training, (first, second) = record["training"], record["training"]["seconds_of_epochs"]
    kept = "within" if training["largest_mib"] <= record["limit_mib"] else "ABOVE"
    return "\n\n".join(
        [
            f"# Images that stay on disk, {record['date']}",
            f"{record['rows']:,} JPEG images of {record['side']} x {record['side']} pixels, "
            f"{record['gib']:g} GiB decoded, {record['loader_workers']} processes that decode; the "
            "cache is in the system's page cache, medians of the turns.",
            markdown_table(["line", "rows/s", "from to", "ratio"], rows),
            f"The command on two ranks, {training['n_train']:,} training rows, a process each that "
            f"decodes: {first:.1f} s the first epoch, {second:.1f} s the second; the largest "
            f"process had {training['largest_mib']:,.0f} MiB of memory that no file backs, {kept} "
            f"the limit of {record['limit_mib']:,}.",
            f"{in_words(record['machine'])}. Repeat it: `python -m {COMMAND}`.\n",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
