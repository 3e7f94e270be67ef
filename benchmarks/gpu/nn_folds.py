"""Seconds of the study's candidates on one GPU, beside the plain PyTorch loop."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.gpu.compiling import warming_up
from benchmarks.gpu.figures import note
from benchmarks.timing import in_turn

if TYPE_CHECKING:
    from benchmarks.bagging.lines import Cells

DRAWS = 1  # ``python -m benchmarks.nn_bagging --device gpu --space study`` takes ten
ROWS = 1_000
EPOCHS = 2
FOLDS = 5


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
        make_problem,
        train_plain,
        train_with_us,
    )
    from pipelines.nn.settings import TrainingSettings
    from pipelines.run.runners import InProcess

    data_dir = os.environ.get("PLEASINGLY_DATA_DIR")
    name, where = ("mnist", data_dir) if data_dir else ("digits", "data")
    problem, tiny = (
        make_problem(
            name,
            space,
            DRAWS,
            n_folds=FOLDS,
            limit=ROWS,
            data_dir=where,
            training=TrainingSettings(max_epochs=EPOCHS, least_fall=-1e9, device="gpu"),
        )
        for space in ("study", "small")  # the host draws first weights of the study's for 15 s
    )
    runner = InProcess(1)
    with warming_up():
        train_with_us(tiny, runner)
        train_plain(tiny, 1)
    torch.cuda.reset_peak_memory_stats()
    ours, plain = in_turn(
        {
            "ours": partial(train_with_us, problem, runner),
            "plain": partial(train_plain, problem, 1),
        },
        1,
    )
    differ = compare(ours.result, plain.result, 1)["largest_difference_rows"]
    peak = torch.cuda.max_memory_allocated() / 2**30
    steps = ROWS * (FOLDS - 1) // FOLDS // problem.training.batch_size
    note(
        f"{name}, {DRAWS} of the study's candidates: {sentence(ours.result, plain.result, steps)}, "
        f"peak {peak:.1f} GiB; folds' errors differ by at most {differ} rows"
    )
    if (differ or 0) > ROWS // 50:
        raise RuntimeError(f"errors of a fold differ by {differ} rows of {ROWS // FOLDS}")


def sentence(ours: Cells, plain: Cells, steps: int) -> str:
    """Milliseconds of a step of all folds, of training alone: first weights are drawn before.

    steps : of an epoch
    """
    epochs = {
        draw: np.mean([n for (cell_draw, _), n in ours.n_epochs.items() if cell_draw == draw])
        for draw in ours.training
    }
    step_seconds = [ours.training[draw] / (epochs[draw] * steps) for draw in ours.training]
    ratios = [plain.training[draw] / ours.training[draw] for draw in ours.training]
    drawing = sum(ours.seconds.values()) - sum(ours.training.values())
    return (
        f"{np.mean(step_seconds) * 1e3:.2f} ms for a step of {FOLDS} folds, the plain loop "
        f"{np.median(ratios):.1f} × as long (median; {min(ratios):.1f} to {max(ratios):.1f}), "
        f"{drawing:.1f} s of first weights, placing and scoring apart"
    )
