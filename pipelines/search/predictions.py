"""Write the predictions of the test rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pipelines.data.dataset import REGRESSION, Dataset
from pipelines.run_folder.names import PREDICTIONS, RESIDUALS, WRONG


def write_predictions(
    path: Path, dataset: Dataset, predicted: np.ndarray, **more: Any
) -> dict[str, Any]:
    """Write the table of predictions and, of images, those that are wrong.

    Parameters
    ----------
    path : the run's folder
    predicted : int array of shape (n_test,), class codes; floats of a target of numbers
    more : further columns, of classes

    Returns
    -------
    ``test_error`` and ``n_test_errors`` for ``run.json``; None where the target is numbers
    """
    import pandas as pd

    truth = dataset.y_test
    table: dict[str, Any] = {"row": np.arange(len(truth)), "true": truth}
    if dataset.task == REGRESSION:
        pd.DataFrame(table | {"predicted": predicted.astype(float)}).to_parquet(path / RESIDUALS)
        return {"test_error": None, "n_test_errors": None}
    pd.DataFrame(table | {"predicted": predicted, **more}).to_parquet(path / PREDICTIONS)
    wrong = np.flatnonzero(predicted != truth)
    images = dataset.pictures or dataset
    if images.image_shape is not None:
        np.savez_compressed(
            path / WRONG, row=wrong, true=truth[wrong], predicted=predicted[wrong],
            X=images.X_test[wrong],
        )  # fmt: skip
    return {"test_error": len(wrong) / len(truth), "n_test_errors": len(wrong)}
