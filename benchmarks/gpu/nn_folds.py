"""Seconds of the study's candidates on one GPU, beside the plain PyTorch loop."""

from __future__ import annotations

import os
from functools import partial

from benchmarks.gpu.figures import note
from benchmarks.timing import in_turn

DRAWS = 4  # ``python -m benchmarks.nn_bagging --device gpu --space study`` takes ten
ROWS = 1_000
EPOCHS = 2


def compare_training() -> None:
    """A few of the study's candidates, few rows, two epochs: what a step takes.

    Raises
    ------
    RuntimeError
        A candidate failed, or the two ways come to different errors.
    """
    import torch

    from benchmarks.bagging.lines import (
        compare,
        first_draws,
        make_problem,
        train_plain,
        train_with_us,
    )
    from pipelines.nn.settings import Training
    from pipelines.run.tasks import InProcess

    data_dir = os.environ.get("PLEASINGLY_DATA_DIR")
    name, where = ("mnist", data_dir) if data_dir else ("digits", "data")
    problem = make_problem(
        name, "study", DRAWS, limit=ROWS, data_dir=where,
        training=Training(max_epochs=EPOCHS, least_fall=-1e9, device="gpu"),
    )  # fmt: skip
    runner = InProcess(1)
    train_with_us(first_draws(problem, 1), runner)
    train_plain(first_draws(problem, 1), 1)
    torch.cuda.reset_peak_memory_stats()
    ours, plain = in_turn(
        {
            "ours": partial(train_with_us, problem, runner),
            "plain": partial(train_plain, problem, 1),
        },
        1,
    )
    found = compare(ours.result, plain.result, 1)
    steps = found["epochs_ours"] / 5 * (ROWS * 4 / 5 / problem.training.batch_size)
    peak = torch.cuda.max_memory_allocated() / 2**30
    note(
        f"{name}, {DRAWS} of the study's candidates: {ours.median / steps * 1e3:.2f} ms for a step "
        f"of five folds, the plain loop {found['ratio_median_draw']:.1f} × as long (median; "
        f"{min(found['ratio_by_draw']):.1f} to {max(found['ratio_by_draw']):.1f}), peak "
        f"{peak:.1f} GiB; folds' errors differ by at most {found['largest_difference_rows']} rows"
    )
    if (found["largest_difference_rows"] or 0) > ROWS // 50:
        raise RuntimeError(
            f"errors of a fold differ by {found['largest_difference_rows']} rows of {ROWS // 5}"
        )
