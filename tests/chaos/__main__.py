"""``make chaos``: runs are disturbed in every way that is known, and must end as if not.

Each run has a number; the same number with the same seed brings the same faults:
``python -m tests.chaos --only workers --number 7``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from tests.chaos.runs import KINDS, Chaos


def main(argv=None):
    """Disturb runs; exit status 1 if one did not hold."""
    options = _parser().parse_args(argv)
    results = []
    todo = []
    with tempfile.TemporaryDirectory(prefix="chaos-", dir=options.folder) as folder:
        chaos = Chaos(Path(folder), options.seed)
        for name in options.only or KINDS:
            if reason := KINDS[name].missing():
                print(f"{name}: not tried: {reason}", flush=True)
                continue
            numbers = options.number or range(options.runs or KINDS[name].n_runs)
            todo += [(name, number) for number in numbers]
        chaos.prepare(number for _, number in todo)
        with ThreadPoolExecutor(options.jobs) as pool:
            for future in as_completed(pool.submit(chaos.disturb, *job) for job in todo):
                results.append(future.result())
                print(_line(results[-1]), flush=True)
    results.sort(key=lambda result: todo.index((result.kind, result.number)))
    failed = [result for result in results if result.broken]
    print(f"{len(results)} runs disturbed, {len(failed)} did not hold")
    return 1 if failed else 0


def _line(result):
    held = f"BROKEN {result.broken}" if result.broken else "held"
    done = "; ".join(result.done)
    return (
        f"{result.kind} {result.number}: {result.command}, {result.seconds:.0f} s, {held}: {done}"
    )


def _parser():
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--only", action="append", choices=tuple(KINDS), help="this kind of chaos")
    parser.add_argument("--number", action="append", type=int, metavar="N", help="this run alone")
    parser.add_argument("--runs", type=int, metavar="N", help="so many of each kind")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="so many at a time")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default: 0")
    parser.add_argument("--folder", metavar="DIR", help="where the runs are carried out")
    return parser


if __name__ == "__main__":
    sys.exit(main())
