"""The replay beside SimGrid: ``python -m benchmarks.replay.second_opinion``.

SimGrid (Casanova et al. 2014) simulates distributed programs, and knows nothing of ours. Three
cases are worked off by both: the program's queue on many equal workers, one scheduler serving them
all; on workers of unlike speed, some of which come late; and with units that need others. When each
unit ends is compared. Debian has SimGrid for its own Python, as python3-simgrid.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import add_results, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from benchmarks.replay.measured import Measured
from benchmarks.replay.schedules import queue_by
from pipelines.errors import InputError, opt
from pipelines.run.options import OneLineParser
from pipelines.run.schedule import Lives, Queue, Seconds, course

COMMAND = "benchmarks.replay.second_opinion"
SCRIPT = Path(__file__).parent / "in_simgrid.py"
DEBIANS = "/usr/bin/python3"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the comparison; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    parser.add_argument(
        "--python",
        default=DEBIANS,
        metavar="FILE",
        help=f"a Python that has SimGrid (default: {DEBIANS})",
    )
    add_results(parser)
    return parser


def _run(options: argparse.Namespace) -> None:
    if not has_simgrid(options.python):
        raise InputError(
            f"{opt('python')} must be a Python that can import simgrid, got {options.python}; "
            "apt-get install python3-simgrid brings it to Debian's"
        )
    lines = [compare(options.python, *case) for case in cases()]
    record = stamped("replay_second_opinion", lines=lines)
    text = page(record)
    print(f"{text}\nkept in {keep(Path(options.results), 'replay-second-opinion', record, text)}")


def has_simgrid(python: str) -> bool:
    """Whether that Python is there and can import it."""
    try:
        asked = subprocess.run([python, "-c", "import simgrid"], capture_output=True)
    except OSError:
        return False
    return asked.returncode == 0


def cases() -> Iterator[tuple[str, Queue, Lives]]:
    """What is compared: in words, the queue, and the workers, of whom no two come at once."""
    generator = np.random.default_rng(0)

    def lives(speed: Seconds, begins: Seconds) -> Lives:
        one_by_one = np.arange(len(speed)) / 1000
        return Lives(speed, begins + one_by_one, np.full(len(speed), np.inf))

    grid = Measured.load("svm_grid")
    drawn = grid.draw(2_000, generator, mean=50)
    equal = lives(np.ones(100), np.zeros(100))
    yield "svm_grid, 100 equal workers", queue_by(drawn, drawn.costs, 0.1), equal
    unlike = lives(np.tile([1.0, 0.5, 2.0], 4), np.repeat([0.0, 30.0, 300.0], 4))
    drawn = grid.draw(240, generator, mean=50)
    yield (
        "svm_grid, 12 workers of three speeds, 8 of which come late",
        queue_by(drawn, drawn.costs, 0.1),
        unlike,
    )
    ensemble = Measured.load("nn_bagging")
    drawn = ensemble.draw(ensemble.n_units, generator, mean=50)
    equal = lives(np.ones(9), np.zeros(9))
    yield "nn_bagging, whose refits need candidates, 9 workers", queue_by(drawn, drawn.costs), equal


def compare(python: str, case: str, queue: Queue, lives: Lives) -> dict[str, Any]:
    """Both ways: the end of the last unit, and by how much any unit's end differs, in seconds."""
    ours, theirs = course(queue, lives)[1], in_simgrid(python, queue, lives)
    return {
        "case": case,
        "n_units": len(queue.seconds),
        "per_task_seconds": queue.per_task,
        "ours_seconds": float(ours.max()),
        "simgrid_seconds": float(theirs.max()),
        "largest_difference_seconds": float(np.abs(ours - theirs).max()),
    }


def in_simgrid(python: str, queue: Queue, lives: Lives) -> Seconds:
    """When each unit ends there, of shape (n,), in the order of the queue; workers last."""
    case = {
        "seconds": queue.seconds.tolist(),
        "needs": {place: list(needed) for place, needed in queue.needs.items()},
        "per_task": queue.per_task,
        "speed": lives.speed.tolist(),
        "begins": lives.begins.tolist(),
    }
    done = subprocess.run(
        [python, str(SCRIPT)], input=json.dumps(case), capture_output=True, text=True, check=True
    )
    return np.array(json.loads(done.stdout))


def page(record: dict[str, Any]) -> str:
    """The record as a page to read."""
    from benchmarks.machine import in_words

    table = markdown_table(
        ["case", "units", "scheduler, s a unit", "replay", "SimGrid", "largest difference"],
        [
            [
                one["case"], f"{one['n_units']:,}", f"{one['per_task_seconds']:g}",
                f"{one['ours_seconds']:.3f} s", f"{one['simgrid_seconds']:.3f} s",
                f"{one['largest_difference_seconds']:.1e} s",
            ]
            for one in record["lines"]
        ],
    )  # fmt: skip
    return (
        f"# The replay beside SimGrid, {record['date']}\n\nThe end of the last unit by either, and "
        f"by how much the end of any unit differs.\n\n{table}\n\n{in_words(record['machine'])}. "
        f"Repeat it: `python -m {COMMAND}`.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
