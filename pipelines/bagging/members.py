"""The members of a run on disk: weights, in a format that runs no code, and predictions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.bagging.record import INTERVALS, MEMBER_FILES, NESTED, SELECTIVE_PREDICTION
from pipelines.data.model_file import Arrays, Model, read_model_file
from pipelines.data.placement import SharedData
from pipelines.nn.batched_fit import Refitted
from pipelines.nn.member import Ensemble, OutOfBagPrediction, Prediction
from pipelines.run_folder import names

# Files that predictions depend on.
READ = (
    SELECTIVE_PREDICTION,
    INTERVALS,
    f"{MEMBER_FILES}/*.safetensors",
)

# The fields of a ``Prediction`` and an ``OutOfBagPrediction``, by their names in a file.
OF_TEST = ("test_probabilities", "test_distance")
OF_OUT_OF_BAG = ("out_of_bag_rows", "out_of_bag_probabilities", "out_of_bag_distance")


def prediction_key(row: Mapping[str, Any]) -> tuple[str, int, int]:
    """The key under which a worker's process keeps the predictions of a refit."""
    return "member", row["member"], row["candidate"]


def load_stored(path: Path, make: Callable[[Arrays, dict[str, Any]], Model]) -> Model | None:
    """What a run stored beside its members, see ``read_model_file``; None if it is unfinished."""
    if not path.is_file():
        return None
    way_out = "resume the run, which writes it again"
    return read_model_file(path, make, "what nn_bagging stored beside its members", way_out)


class MemberFiles:
    """A folder of a run's members, with two files for each, which are complete or absent."""

    def __init__(self, run: Path, folder: str = MEMBER_FILES) -> None:
        self.path = run / folder

    @classmethod
    def of_stage(cls, run: Path, stage: str) -> MemberFiles:
        """The folder for members of a stage; each outer fold has its own."""
        outer = stage.partition("member=")[0].strip()
        return cls(run, f"{NESTED}-{outer}" if outer else MEMBER_FILES)

    def weights(self, member: int) -> Path:
        """The path of a member's weights."""
        return self.path / f"member-{member:02d}.safetensors"

    def paths(self, member: int) -> list[Path]:
        """The paths of a member's files: weights and predictions."""
        return [self.weights(member), self.weights(member).with_suffix(".npz")]

    def save(self, number: int, refitted: Refitted, classes: np.ndarray) -> None:
        """Store a member and its predictions durably.

        Raises
        ------
        OSError
            The disk is full or cannot be written.
        """
        assert refitted.member is not None
        assert refitted.test is not None
        assert refitted.out_of_bag is not None
        self.path.mkdir(exist_ok=True)
        with names.replacing(self.weights(number)) as path:
            Ensemble([refitted.member], classes).save(path, member=number)
        predictions = (*refitted.test, *refitted.out_of_bag)
        arrays = dict(zip(OF_TEST + OF_OUT_OF_BAG, predictions, strict=True))
        names.write_arrays(self.paths(number)[1], arrays, compressed=False)

    def recall(
        self, data: SharedData | None, row: Mapping[str, Any], device: str
    ) -> tuple[Prediction, OutOfBagPrediction]:
        """The predictions of a refit, from this process if it made them, otherwise from the file.

        Parameters
        ----------
        data : SharedData, optional
            The search's data in this process.
        row : mapping
            The refit's row.
        device : {"cpu", "gpu"}
            Where the predictions of test rows should be placed.
        """
        predictions = data and data.shared.data.placement.recall(prediction_key(row))
        predictions = predictions or self.predictions(row["member"])
        return predictions[0].on(device), predictions[1]

    def predictions(self, member: int) -> tuple[Prediction, OutOfBagPrediction]:
        """Load a member's predictions of the test rows and of its out-of-bag rows."""
        with np.load(self.paths(member)[1], allow_pickle=False) as stored:
            of_test = Prediction(*(stored[name] for name in OF_TEST))
            return of_test, OutOfBagPrediction(*(stored[name] for name in OF_OUT_OF_BAG))

    def numbers(self) -> list[int]:
        """The numbers of the members whose weights are here, in order."""
        paths = self.path.glob("member-*.safetensors")
        numbers = (path.stem.removeprefix("member-") for path in paths)
        return sorted(int(number) for number in numbers if number.isdecimal())
