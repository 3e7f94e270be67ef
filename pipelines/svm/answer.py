"""From the table of cells to the answer: rank, refit, test, and write what was found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.data import Dataset
from pipelines.data.placement import FoldedData
from pipelines.run.errors import RunStopped
from pipelines.run.tasks import OnCluster
from pipelines.run_folder import names
from pipelines.run_folder.columns import SVM_CANDIDATE, SvmCandidate
from pipelines.select.calibration import expected_calibration_error, log_loss
from pipelines.select.predictions import write_predictions
from pipelines.select.scores import reduce_scores
from pipelines.svm.grid import Grid, refit
from pipelines.svm.refit import Refit, Tested, refit_and_test

if TYPE_CHECKING:
    import pandas as pd

OF_BEST = ("C", "gamma", "error_mean", "error_std", "score_mean", "score_std")


def answer(
    runner: OnCluster,
    data: FoldedData,
    grid: Grid,
    path: Path,
    dataset: Dataset,
    probability: bool = False,
) -> dict[str, Any]:
    """Rank the candidates, refit the best on a worker, test it once; facts for ``run.json``.

    Raises
    ------
    RunStopped
        Every candidate failed, or the refit did.
    """
    import pandas as pd

    cells = pd.read_parquet(path / names.CELLS)
    candidates = reduce_scores(cells, SVM_CANDIDATE, len(data.folds), runner.client)
    candidates.to_parquet(path / names.CANDIDATES)
    best = candidates.iloc[0]
    if np.isnan(best.score_mean):
        raise RunStopped("every candidate failed, none can be called best")
    unit = Refit(float(best.C), float(best.gamma), dataset.classes, probability)
    tested: Tested = refit(runner, data, grid, unit, refit_and_test)
    tested.machine.save(path / names.MODEL)
    write_predictions(path, dataset, tested.predicted, margin=tested.margin)
    n_wrong = int(np.sum(tested.predicted != dataset.y_test))
    facts = {
        "best": {name: float(best[name]) for name in OF_BEST},
        "test_error": n_wrong / len(tested.predicted),
        "n_test_errors": n_wrong,
        "n_support": len(tested.machine.support_vectors),
    }
    if tested.probabilities is not None:
        facts |= _of_probabilities(path, dataset, tested.probabilities)
    return facts


def candidates_in(path: Path) -> pd.DataFrame:
    """The candidates of a finished run, best first."""
    from pipelines.run_folder.tables import read_table

    found = read_table(path / names.CANDIDATES, SvmCandidate)
    assert found is not None
    return found


def _of_probabilities(path: Path, dataset: Dataset, probabilities: np.ndarray) -> dict[str, float]:
    """Write the probabilities of the test rows, a column for each label; how good they are."""
    import pandas as pd

    table = pd.DataFrame({"row": np.arange(len(probabilities)), "true": dataset.y_test})
    for label, column in zip(dataset.classes, probabilities.T, strict=True):
        table[f"probability_{label}"] = column
    table.to_parquet(path / names.PROBABILITIES)
    return {
        "test_log_loss": log_loss(probabilities, dataset.y_test),
        "test_calibration_error": expected_calibration_error(probabilities, dataset.y_test),
    }
