"""The points whose certainty a run draws: the hardest, the chosen ones, and one's own pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.bagging.pictures import PictureForm, read_picture
from pipelines.bagging.reductions import Answers, hardest_points
from pipelines.data import Dataset
from pipelines.data.errors import InputError

HARDEST = 6


def chosen_rows(explain: str | None, n_test: int) -> list[int]:
    """The rows of ``--explain``.

    Raises
    ------
    InputError
        There are not so many test rows.
    """
    rows = [int(part) for part in explain.split(",")] if explain else []
    for row in rows:
        if row >= n_test:
            raise InputError(
                f"--explain must be rows of the test set, 0 to {n_test - 1}, got {row}; "
                "test_predictions.parquet of a run lists them"
            )
    return rows


def picture_form(dataset: Dataset) -> PictureForm | None:
    """The form of the data set's images; None for a table."""
    if dataset.image_shape is None:
        return None
    return PictureForm.of(dataset.X_train, dataset.image_shape)


def own_pictures(images: Sequence[str], form: PictureForm | None) -> np.ndarray | None:
    """The pictures of ``--image`` as rows, of shape (n, n_features); None where there are none.

    Raises
    ------
    InputError
        One cannot be read, or the data are no images.
    """
    if not images:
        return None
    if form is None:
        raise InputError(
            "--image needs an ensemble of images, and the data are a table; leave it out"
        )
    return np.stack([read_picture(Path(image), form) for image in images])


def with_pictures(X_test: np.ndarray, own: np.ndarray | None) -> np.ndarray:
    """The test rows, and after them the pictures, in the dtype of the former."""
    return X_test if own is None else np.concatenate([X_test, own.astype(X_test.dtype)])


def explained(
    answers: Answers,
    probabilities: np.ndarray,
    X: np.ndarray,
    truth: np.ndarray,
    chosen: Sequence[int],
    images: Sequence[str],
) -> dict[str, Any]:
    """The arrays of ``explained.npz``; its points are the test points and then the pictures.

    Parameters
    ----------
    answers : of all points
    probabilities : float array of shape (n_members, n_points, n_classes)
    X : array of shape (n_points, n_features)
    truth : class codes of the test points
    chosen : rows
    images : the pictures' paths
    """
    n_test = len(truth)
    hardest = [row for row in hardest_points(answers, HARDEST + len(images)) if row < n_test]
    own = range(n_test, n_test + len(images))
    points = np.array([*hardest[:HARDEST], *chosen, *own], dtype=int)
    groups = ["disagreement"] * len(hardest[:HARDEST]) + ["chosen"] * len(chosen)
    return {
        "name": [
            f"test point {row}" if row < n_test else Path(images[row - n_test]).name
            for row in points
        ],
        "group": groups + ["own"] * len(images),
        "X": X[points],
        "true": np.append(truth, [-1] * len(images)).astype(np.int64)[points],
        "probabilities": probabilities[:, points],
        "vote": answers.vote[points],
        "refer": answers.refer[points],
    }
