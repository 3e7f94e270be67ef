"""The samples that a run explains: the hardest, chosen test rows, and the user's own images."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.bagging.reductions import EnsemblePrediction, hardest_samples
from pipelines.data.dataset import Dataset, take_rows
from pipelines.data.image_files import ImageFormat, WhiteOfRun, files_of, read_image
from pipelines.data.image_paths import readable
from pipelines.errors import InputError, opt
from pipelines.run.options import rule

HARDEST = 6
ROWS = rule(
    "rows such as 7,18", lambda text: all(part.strip().isdecimal() for part in text.split(","))
)


@dataclass(frozen=True, eq=False)
class SamplesToExplain:
    """Samples that the user wants explained.

    Attributes
    ----------
    rows : list of int
        Rows of the test set.
    images : sequence of str
        Paths of the user's own images.
    image_rows : array of shape (n_images, n_features), optional
        Those images as rows.
    form : ImageFormat, optional
        The format of the data set's images; None for a table.
    notes : tuple of str
        Notes on images that were left out of folders, and on what was cut off.
    """

    rows: list[int]
    images: Sequence[str] = ()
    image_rows: np.ndarray | None = None
    form: ImageFormat | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, explain: str | None, images: Sequence[str], dataset: Dataset) -> SamplesToExplain:
        """The samples that the options ``--explain`` and ``--image`` name.

        Raises
        ------
        InputError
            There is no such test row, an image cannot be read, or the data are a table.
        """
        rows = [int(part) for part in explain.split(",")] if explain else []
        form = ImageFormat.of(dataset)
        for row in rows:
            if row >= (n_test := len(dataset.y_test)):
                raise InputError(
                    f"{opt('explain')} must be rows of the test set, 0 to {n_test - 1}, got {row}; "
                    "test_predictions.parquet of a run lists them"
                )
        if not images:
            return cls(rows, form=form)
        if form is None:
            problem = "needs an ensemble of images, and the data are a table; leave it out"
            raise InputError(f"{opt('image')} {problem}")
        (files, notes), white = files_of(map(Path, images)), WhiteOfRun(form.white)
        image_rows = np.stack([read_image(file, form, white) for file in files])
        return cls(rows, [*map(readable, files)], image_rows, form, (*notes, *white.notes))

    def after(self, X_test: Any) -> Any:
        """The test rows followed by the images, in the dtype of the former."""
        image_rows = self.image_rows
        return (
            X_test
            if image_rows is None
            else np.concatenate([X_test, image_rows.astype(X_test.dtype)])
        )

    def describe(self) -> dict[str, Any]:
        """Entries for ``run.json``."""
        return {"images": self._digest, "image_form": self.form and asdict(self.form)}

    @property
    def _digest(self) -> str | None:
        return (
            None
            if self.image_rows is None
            else hashlib.sha256(self.image_rows.tobytes()).hexdigest()
        )

    def refuse_other_images(self, record: Mapping[str, Any]) -> None:
        """Raise InputError if images of a resumed run are not those of its record."""
        if record.get("images") not in (None, self._digest):
            raise InputError(
                f"{opt('resume')} needs the images of {opt('image')} unchanged, but one has "
                f"changed; start a new run with {opt('results')}, or ask the ensemble with predict "
                "when it is done"
            )


def explained_arrays(
    answers: EnsemblePrediction,
    probabilities: np.ndarray,
    X: Any,
    truth: np.ndarray,
    samples_to_explain: SamplesToExplain,
    deferred: np.ndarray,
) -> dict[str, Any]:
    """The arrays of ``explained.npz``: the hardest samples, the chosen ones, and the images.

    Parameters
    ----------
    answers : EnsemblePrediction
        Here and below, first the test samples and then the images.
    probabilities : array of shape (n_members, n_samples, n_classes)
    X : array or DataFrame of shape (n_samples, n_features)
    truth : int array of shape (n_test,)
        Class codes of the test samples.
    samples_to_explain : SamplesToExplain
    deferred : bool array of shape (n_samples,)
    """
    n_test, chosen_rows, images = len(truth), samples_to_explain.rows, samples_to_explain.images
    hardest = [row for row in hardest_samples(answers, HARDEST + len(images)) if row < n_test]
    image_indices = range(n_test, n_test + len(images))
    of_group = {"disagreement": hardest[:HARDEST], "chosen": chosen_rows, "own": image_indices}
    samples = np.array([row for rows in of_group.values() for row in rows], dtype=int)
    X = take_rows(X, samples)
    if not isinstance(X, np.ndarray):  # a table of several kinds of columns: its cells as text
        X = X.astype(object).to_numpy().astype(str)
    return {
        "name": [
            f"test sample {row}" if row < n_test else Path(images[row - n_test]).name
            for row in samples
        ],
        "group": [group for group, rows in of_group.items() for _ in rows],
        "X": X,
        "true": np.append(truth, [-1] * len(images)).astype(np.int64)[samples],
        "probabilities": probabilities[:, samples],
        "vote": answers.vote[samples],
        "deferred": deferred[samples],
    }
