"""Both jobs on one GPU, on two, and so on to all of this machine: seconds and efficiency."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.formations import span
from benchmarks.gpu.compiling import warming_up
from benchmarks.gpu.device import gpus
from benchmarks.gpu.figures import note
from pipelines import Run

UNITS_A_GPU = 8  # of either job, so that the last ones leave few GPUs idle


def time_formations(kind: str = "cuda", most: int | None = None, limit: int = 6_000) -> None:
    """Seconds from the first task's start to the last one's end, as the journals tell.

    Parameters
    ----------
    kind : of the cluster
    most : workers; None: as many as there are GPUs
    limit : rows that are trained on
    """
    from pipelines.nn_bagging import Bagging
    from pipelines.svm_grid import SVMSearchJob

    most = most or len(gpus())
    data_dir = os.environ.get("PLEASINGLY_DATA_DIR")
    data: dict[str, Any] = {"dataset": "mnist", "data_dir": data_dir} if data_dir else {}
    data |= {"folds": 3, "limit": limit, "cluster": kind, "quiet": True}
    n_tasks = UNITS_A_GPU * most
    for job, least, whole in (
        (SVMSearchJob, {"n_c": 1, "n_gamma": 1}, {"n_c": 12, "n_gamma": n_tasks}),
        (
            Bagging,
            {"n_bootstrap": 1, "n_tuning": 1, "max_epochs": 1},
            {"n_bootstrap": most, "n_tuning": UNITS_A_GPU - 1, "max_epochs": 3},
        ),
    ):
        with tempfile.TemporaryDirectory() as folder:
            with warming_up():  # what the workers compile stays on disk
                job.run(**data, **least, workers=1, results=str(Path(folder, "first")))
            seconds = {
                n: _span(job.run(**data, **whole, workers=n, results=str(Path(folder, f"1x{n}"))))
                for n in range(1, most + 1)
            }
        measured = ", ".join(
            f"1x{n} {duration:.1f} s ({seconds[1] / (n * duration):.0%})"
            for n, duration in seconds.items()
        )
        note(f"{job.command}, {n_tasks} tasks: {measured}")


def _span(run: Run) -> float:
    from pipelines.run_folder.reading import RunData

    return span([(task.started, task.seconds) for task in RunData.read(run.path).tasks])
