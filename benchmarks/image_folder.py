"""Decoding of a folder beside torchvision's own loader: ``python -m benchmarks.image_folder``.

PNG files of four classes are decoded by ``--dataset FOLDER`` into its cache, read from there once
more, and decoded by two processes of a DataLoader over an ImageFolder, in turn. Seconds of the
processors are those of all processes: other work on the machine does not count.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.command import add_count, add_results, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from benchmarks.machine import in_words
from pipelines.run.options import OneLineParser

COMMAND = "benchmarks.image_folder"
PROCESSES = 2
DECODED, AGAIN, PEER = "this program", "this program, a second run", "torchvision's loader"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    add_count(parser, "--images", 20_000, "PNG files")
    add_count(parser, "--side", 64, "their pixels")
    add_count(parser, "--repeat", 3, "turns of each")
    add_results(parser)
    return parser


def _run(options: argparse.Namespace) -> None:
    record = measure(options.images, options.side, options.repeat)
    text = page(record)
    path = keep(Path(options.results), "image-folder", record, text)
    print(f"\n{text}\nkept in {path}")


def measure(n: int, side: int, repeat: int) -> dict[str, Any]:
    """Wall seconds and seconds of the processors of each way, every turn."""
    from pipelines.data.image_folder import ImageReading, load_folder

    found: dict[str, list[tuple[float, float]]] = {DECODED: [], AGAIN: [], PEER: []}
    with tempfile.TemporaryDirectory() as name:
        root = Path(name, "images")
        write_images(root, n, side)
        for turn in range(repeat + 1):  # the first is not counted: it imports
            data_dir = Path(name, str(turn))

            def load(data_dir: Path = data_dir) -> None:
                assert len(load_folder(root, data_dir, ImageReading()).X) == n

            for line, work in ((DECODED, load), (AGAIN, load), (PEER, lambda: read_by_peer(root))):
                spent = timed(work)
                print(f"turn {turn}  {line}: {spent[0]:.2f} s, processors {spent[1]:.2f} s")
                if turn:
                    found[line].append(spent)
    return stamped(COMMAND, images=n, side=side, processes=PROCESSES, seconds=found)


def write_images(root: Path, n: int, side: int) -> None:
    """Write images that compress as photographs do: a few large shades, and noise."""
    import numpy as np
    from PIL import Image

    rng = np.random.default_rng(0)
    for label in "abcd":
        (root / label).mkdir(parents=True)
    for i in range(n):
        shades = rng.integers(0, 200, (4, 4, 3))
        pixels = np.kron(shades, np.ones((side // 4, side // 4, 1), int))
        pixels += rng.integers(0, 20, pixels.shape)
        Image.fromarray(pixels.astype(np.uint8)).save(root / "abcd"[i % 4] / f"{i:06}.png")


def read_by_peer(root: Path) -> None:
    """Decode all images as torchvision's documentation has it."""
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder
    from torchvision.transforms import PILToTensor

    images = ImageFolder(str(root), transform=PILToTensor())
    for _ in DataLoader(images, batch_size=64, num_workers=PROCESSES):
        pass


def timed(work: Callable[[], None]) -> tuple[float, float]:
    """Return wall seconds, and those of the processors of this process and its children."""
    from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage

    def processors() -> float:
        used = [getrusage(who) for who in (RUSAGE_SELF, RUSAGE_CHILDREN)]
        return sum(one.ru_utime + one.ru_stime for one in used)

    wall, before = time.perf_counter(), processors()
    work()
    return time.perf_counter() - wall, processors() - before


def page(record: dict[str, Any]) -> str:
    """Return the table that is kept."""
    middle = {
        line: [statistics.median(one) for one in zip(*turns, strict=True)]
        for line, turns in record["seconds"].items()
    }
    rows = [
        [line, f"{wall:.2f}", f"{processors:.2f}", f"{middle[PEER][1] / processors:.2f} ×"]
        for line, (wall, processors) in middle.items()
    ]
    table = markdown_table(
        ["", "seconds", "seconds of the processors", f"speed against {PEER}"], rows
    )
    return (
        f"# {record['images']:,} PNG files of {record['side']} × {record['side']} pixels\n\n"
        f"`python -m {COMMAND}`, medians of {len(record['seconds'][PEER])} turns on "
        f"{in_words(record['machine'])}.\n\n{table}\n"
    )


if __name__ == "__main__":
    sys.exit(main())
