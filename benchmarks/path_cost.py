"""What the study's grid would cost on a GPU, predicted: ``python -m benchmarks.path_cost``.

The counts of the GPU's walk, replayed on the CPU on subsets and parts of MNIST
(``--count``; the kept ones by default), grown to ``--rows``, and multiplied by what an
iteration costs on each card, for each shape of launch. Arithmetic, not measurement.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.command import add_count, base_parser, exit_status
from benchmarks.keep import keep, markdown_table
from pipelines.errors import InputError
from pipelines.run.options import OneLineParser

COMMAND = "benchmarks.path_cost"
COUNTS = "path-cost-counts.json"
SHAPES = ((512, 2), (256, 4), (256, 3), (256, 2), (128, 8), (128, 4))
# Of MNIST's 60,000 rows, those that a block of the first kernel, one of two, held the
# residuals of; of more members it worked on all rows of the problem.
CAPACITY, ALL_ROWS = 8954, 60_000
# What is replayed: rows of the subset, gammas of the 24, binary problems; see ``grown``.
EVERY = tuple(range(24))
REPLAYS: dict[str, tuple[tuple[int | None, tuple[int, ...], tuple[int, ...] | None], ...]] = {
    "ovo": (
        (12_000, EVERY, None),
        (None, EVERY[2::3], (31, 2, 37, 43, 1, 14)),
    ),
    "ovr": (
        (6_000, EVERY, None),
        (12_000, EVERY[1::2], None),
        (24_000, (1, 5, 11), (8, 3, 0)),
    ),
}  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run the prediction; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _parser() -> OneLineParser:
    parser = base_parser(COMMAND, __doc__, dataset="mnist", folds=5)
    add = parser.add_argument
    add("--count", action="store_true", help="replay anew (hours of a core) and keep the counts")
    add_count(parser, "--rows", 60_000, "training rows")
    add_count(parser, "--fixed", None, "fixed instructions of a warp and iteration, by nvdisasm")
    add_count(parser, "--member", None, "instructions for each 32 members, by nvdisasm")
    add("--sass", metavar="FILE", help="nvdisasm -c's text of the kernel, to count them from")
    add_count(parser, "--members", None, "an inner solve works on at most")
    add("--order", default="rows", choices=("rows", "iterations"), help="of the queue")
    add("--gathers", action="store_true", help="inner solves copy their members' kernel first")
    return parser


def _run(options: argparse.Namespace) -> None:
    path = Path(options.results, COUNTS)
    if options.count:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(count(options), separators=(",", ":")) + "\n")
    if not path.exists():
        raise InputError(f"--results must hold {COUNTS}, {options.results} does not; use --count")
    record = predict_all(json.loads(path.read_text()), options)
    text = page(record)
    name = "path-cost-compiled" if options.sass else "path-cost"
    print(f"{text}\nkept in {keep(Path(options.results), name, record, text)}")


def count(options: argparse.Namespace) -> dict[str, list[dict[str, Any]]]:
    """Replay everything ``REPLAYS`` names."""
    import numpy as np

    from benchmarks.cost.counts import count_grid
    from benchmarks.grid_search.lines import make_problem

    found: dict[str, list[dict[str, Any]]] = {}
    for decision, replays in REPLAYS.items():
        for limit, gammas, numbers in replays:
            grid = make_problem(
                options.dataset,
                Cs=np.logspace(-3, 6, 24).tolist(),
                gammas=np.logspace(-6, -2, 24)[list(gammas)].tolist(),
                n_folds=options.folds,
                limit=limit,
                data_dir=options.data_dir,
            )
            # A pair is about as large as the capacity, and never needs so many members.
            rows = len(grid.dataset.y_train) if decision == "ovr" else ALL_ROWS
            capacity = CAPACITY * rows // ALL_ROWS
            found.setdefault(decision, []).append(
                count_grid(grid, decision, capacity, 1.0, numbers)
            )
    return found


def kernel_of(options: argparse.Namespace) -> Any:
    """The kernel that the options describe, the first one where they say nothing."""
    from benchmarks.cost.instructions import iteration_loops
    from benchmarks.cost.seconds import FIRST, Kernel

    fixed, member = options.fixed or FIRST.fixed, options.member or FIRST.member
    if options.sass:
        try:
            loops = iteration_loops(Path(options.sass).read_text())
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"--sass must be a file of nvdisasm -c: {error}") from None
        if not loops:
            raise InputError(
                f"--sass must hold a kernel of the solver, {options.sass} has no iteration of it; "
                "use nvdisasm -c on its cubin"
            )
        fixed, member = loops[0].fixed_of_a_warp, loops[0].for_32_members
    if options.gathers:
        # A member's kernel lies in a row: no sectors that are read for one value.
        return Kernel(fixed, member, member_bytes=2 * 4, gathers=True)
    return Kernel(fixed, member)


def predict_all(counts: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Seconds for both decisions, every card and every shape."""
    from benchmarks.cost.cards import CARDS
    from benchmarks.cost.extrapolate import grown, walks_of
    from benchmarks.cost.seconds import Shape, ideal, other_seconds, predict
    from pipelines.run.environment import commit

    kernel = kernel_of(options)
    lines, walked = [], []
    for decision, records in counts.items():
        jobs = grown(records, options.rows)
        walks = walks_of(jobs, options.folds, options.order, options.members or float("inf"))
        iterations = float(walks.iterations.sum())
        walked.append(
            {
                "decision": decision,
                "iterations": iterations,
                "members": float((walks.iterations * walks.members).sum()) / iterations,
                "longest": float(walks.iterations.max()),
            }
        )
        for card in CARDS.values():
            other = other_seconds(
                options.rows,
                records[0]["n_features"],
                records[0]["n_classes"] * records[0]["n_C"],
                len(records[0]["gammas"]),
                card,
            )
            for threads, blocks in SHAPES:
                shape = Shape(threads, blocks)
                found = predict(walks, shape, kernel, card)
                lines.append(
                    {
                        "decision": decision, "card": card.name, "threads": threads,
                        "blocks": blocks, "seconds": found.seconds, "chain": found.chain,
                        "memory": found.memory, "read_bytes": found.read_bytes,
                        "ideal": ideal(walks, shape, kernel, card),
                        "other": other,
                    }
                )  # fmt: skip
    return {
        "benchmark": "path_cost",
        "date": date.today().isoformat(),
        "dataset": options.dataset,
        "rows": options.rows,
        "kernel": {
            "fixed": kernel.fixed, "member": kernel.member, "member_bytes": kernel.member_bytes,
            "gathers": kernel.gathers, "members": options.members, "order": options.order,
        },
        "walks": walked,
        "lines": lines,
        "commit": commit(),
    }  # fmt: skip


def page(record: dict[str, Any]) -> str:
    """The record as a page to read."""
    kernel = record["kernel"]
    limits = f", of which a solve has at most {kernel['members']}" if kernel["members"] else ""
    limits += ", whose kernel it copies first" if kernel["gathers"] else ""
    walks = markdown_table(
        ["decision", "iterations", "members, mean", "longest chain"],
        [
            [one["decision"], f"{one['iterations']:.2g}", f"{one['members']:.0f}",
             f"{one['longest']:.2g}"]
            for one in record["walks"]
        ],
    )  # fmt: skip
    seconds = markdown_table(
        ["decision", "card", "threads × blocks", "solver", "all multiprocessors full",
         "longest chain alone", "reads", "distances, scores"],
        [
            [one["decision"], one["card"], f"{one['threads']} × {one['blocks']}",
             f"{one['seconds']:.0f} s", f"{one['ideal']:.0f} s", f"{one['chain']:.0f} s",
             f"{one['read_bytes'] / 1e12:.0f} TB, {one['memory']:.0f} s",
             f"{one['other']:.1f} s"]
            for one in record["lines"]
        ],
    )  # fmt: skip
    return (
        f"# Predicted: the study's grid on a GPU, {record['date']}\n\n"
        f"{record['dataset']}, {record['rows']:,} rows, 24 C × 24 gamma × 5 folds. Nothing here "
        f"was measured on a GPU; an iteration's cost may be wrong by a factor of two either way. "
        f"A warp's instructions in an iteration: {kernel['fixed']}, and {kernel['member']:.0f} for "
        f"each 32 members{limits}; the queue is in order of {kernel['order']}.\n\n{walks}\n\n"
        f"{seconds}\n\n"
        f"Repeat it: `python -m {COMMAND}`; `--count` replays the walks.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
