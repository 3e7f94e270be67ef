"""Our training of networks against a plain PyTorch loop: ``python -m benchmarks.nn_bagging``.

Candidates of a search space are cross-validated on the folds of a bootstrap sample: by us,
as a bagging run does it, and by the loop that a user of PyTorch writes. The lines run in
turn, in one process tree; the cluster is opened and warmed up apart from the timing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import date
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.command import add_count, add_limit, add_turns, base_parser, exit_status
from benchmarks.gpu.device import gpus
from benchmarks.keep import keep, slug
from pipelines.errors import InputError
from pipelines.run.options import OneLineParser

if TYPE_CHECKING:
    from benchmarks.bagging.lines import Cells

COMMAND = "benchmarks.nn_bagging"
WARM_UP_ROWS = 300


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _run(options: argparse.Namespace) -> None:
    if options.device == "gpu" and not gpus():
        raise InputError("--device gpu needs a GPU, and CUDA sees none here; use --device cpu")
    from benchmarks.bagging.lines import first_draws, make_problem, train_plain, train_with_us
    from benchmarks.bagging.page import describe, page
    from benchmarks.timing import in_turn
    from cluster_setup import open_cluster
    from cluster_setup.on_this_machine.devices import available_cores
    from pipelines.nn.settings import TrainingSettings
    from pipelines.run.runners import InProcess, OnCluster

    on_gpu, cores = options.device == "gpu", available_cores()
    make = partial(
        make_problem,
        options.dataset,
        options.space,
        n_folds=options.folds,
        seed=options.seed,
        data_dir=options.data_dir,
        training=TrainingSettings(
            batch_size=options.batch_size,
            max_epochs=options.max_epochs,
            device=options.device,
            precision=options.precision,
        ),
    )
    problem = make(options.draws, limit=options.limit)
    warm_up = make(2 * cores, limit=WARM_UP_ROWS)
    threads = [1] if on_gpu else sorted({cores, 1}, reverse=True)
    with ExitStack() as stack:
        n_workers = 1 if on_gpu else cores
        runner: InProcess | OnCluster = InProcess(1)
        if not on_gpu:
            runner = OnCluster(stack.enter_context(open_cluster("local", n_workers)))
            # The scheduler may give the tasks of a short run to some of the workers alone.
            runner.client.run(train_with_us, first_draws(warm_up, 1), InProcess(1))
        train_with_us(first_draws(warm_up, 2) if on_gpu else warm_up, runner)
        train_plain(first_draws(warm_up, 1), cores)
        lines: dict[str, Callable[[], Cells]] = {"ours": partial(train_with_us, problem, runner)}
        for n_threads in threads:
            name = "plain" if on_gpu else f"plain, {n_threads} thread" + "s" * (n_threads > 1)
            lines[name] = partial(train_plain, problem, n_threads)
        timed = in_turn(lines, options.repeat)
    where = gpus()[0].name if on_gpu else f"{cores} cores, {n_workers} workers of one thread"
    record = describe(problem, options.space, timed, n_workers, where, date.today().isoformat())
    text = page(record)
    size = f"-{options.limit}" if options.limit else ""
    card = f"-{slug(where)}" if on_gpu else ""
    name = f"nn_bagging-{slug(options.dataset)}{size}-{slug(Path(options.space).stem)}{card}"
    print(f"\n{text}\nkept in {keep(Path(options.results), name, record, text)}")


def _parser() -> OneLineParser:
    parser = base_parser(COMMAND, __doc__, dataset="digits", folds=5)
    add_limit(parser)
    add = parser.add_argument
    add("--space", default="small", metavar="NAME", help="study, small or mlp, or a .yaml file")
    add_count(parser, "--draws", 10, "candidates")
    add_count(parser, "--batch-size", 10)
    add_count(parser, "--max-epochs", 20)
    add("--device", default="cpu", choices=("cpu", "gpu"), help="default: cpu")
    add("--precision", default="fp32", choices=("fp32", "tf32"), help="of our line on a GPU")
    add_turns(parser, repeat=1)
    return parser


if __name__ == "__main__":
    sys.exit(main())
