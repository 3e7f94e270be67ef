"""Write the predictions of the test rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pipelines.data.dataset import Dataset
from pipelines.run_folder.names import PREDICTIONS, RESIDUALS, WRONG


def write_predictions(path: Path, dataset: Dataset, predicted: np.ndarray, **more: Any) -> None:
    """Write the table of predictions and, of images, those that are wrong.

    Parameters
    ----------
    path : the run's folder
    predicted : int array of shape (n_test,), class codes
    more : further columns
    """
    import pandas as pd

    truth = dataset.y_test
    table = pd.DataFrame(
        {"row": np.arange(len(truth)), "true": truth, "predicted": predicted, **more}
    )
    table.to_parquet(path / PREDICTIONS)
    images = dataset.pictures or dataset
    if images.image_shape is not None:
        wrong = np.flatnonzero(predicted != truth)
        np.savez_compressed(
            path / WRONG, row=wrong, true=truth[wrong], predicted=predicted[wrong],
            X=images.X_test[wrong],
        )  # fmt: skip


def write_residuals(path: Path, dataset: Dataset, predicted: np.ndarray) -> None:
    """Write the table of predictions of a target of numbers.

    Parameters
    ----------
    path : the run's folder
    predicted : float array of shape (n_test,)
    """
    import pandas as pd

    table = {"row": np.arange(len(predicted)), "true": dataset.y_test,
             "predicted": predicted.astype(float)}  # fmt: skip
    pd.DataFrame(table).to_parquet(path / RESIDUALS)
