"""The members of a run on disk: weights that run no code, and what they say of the test samples."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from pipelines.bagging.out_of_bag import OutOfBagPrediction
from pipelines.errors import InputError
from pipelines.nn.member import Ensemble, Member
from pipelines.run_folder import names
from pipelines.run_folder.arrays import DAMAGE, read_array, read_arrays

READ = names.SELECTIVE_PREDICTION, f"{names.MEMBER_FILES}/*.safetensors"  # by who predicts


class MemberFiles:
    """The folder ``members`` of a run: three files for each member, whole or not there.

    Parameters
    ----------
    run : Path
        The run's folder.
    """

    def __init__(self, run: Path) -> None:
        self.path = run / names.MEMBER_FILES

    def weights(self, member: int) -> Path:
        """Return the path of a member's weights."""
        return self.path / f"member-{member:02d}.safetensors"

    def _probabilities(self, member: int) -> Path:
        return self.path / f"member-{member:02d}.npy"

    def paths(self, member: int) -> list[Path]:
        """Return the paths of a member's three files."""
        return [self.weights(member), self._probabilities(member), self._out_of_bag(member)]

    def has(self, member: int) -> bool:
        """Return whether the weights and predictions of a member are stored and undamaged."""
        try:
            Ensemble.load(self.weights(member))
            stored = self.probabilities(member)
            return stored.ndim == 2 and bool(np.isfinite(stored).all())
        except (*DAMAGE, InputError):
            return False

    def _out_of_bag(self, member: int) -> Path:
        return self.path / f"member-{member:02d}-out-of-bag.npz"

    def save(
        self,
        number: int,
        member: Member,
        probabilities: np.ndarray,
        out_of_bag: OutOfBagPrediction,
        classes: np.ndarray,
    ) -> None:
        """Store a member, on disk when this returns.

        Parameters
        ----------
        probabilities : float32 array of shape (n_samples, n_classes)
        classes : labels of shape (n_classes,)

        Raises
        ------
        OSError
            The disk is full or cannot be written.
        """
        self.path.mkdir(exist_ok=True)
        with _whole(self._out_of_bag(number)) as path, path.open("wb") as file:
            np.savez(file, allow_pickle=False, **out_of_bag._asdict())
        with _whole(self.weights(number)) as path:
            Ensemble([member], classes).save(path, member=number)
        with _whole(self._probabilities(number)) as path, path.open("wb") as file:
            np.save(file, probabilities, allow_pickle=False)

    def probabilities(self, member: int) -> np.ndarray:
        """Load the probabilities of a member; raises one of ``DAMAGE`` if they are damaged."""
        return read_array(self._probabilities(member))

    def out_of_bag(self, member: int) -> OutOfBagPrediction | None:
        """Load the out-of-bag prediction of a member; None if it is missing or damaged."""
        try:
            stored = OutOfBagPrediction(
                *read_arrays(self._out_of_bag(member), OutOfBagPrediction._fields)
            )
        except DAMAGE:
            return None
        return stored if stored.probabilities.shape[:1] == stored.rows.shape else None

    def numbers(self) -> list[int]:
        """Return the members that have weights here, in order."""
        found = self.path.glob("member-*.safetensors")
        numbers = (path.stem.removeprefix("member-") for path in found)
        return sorted(int(number) for number in numbers if number.isdecimal())


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """Yield another name to write a file under first, so that a kill leaves no half of it."""
    part = path.with_name(path.name + ".part")
    yield part
    with part.open("rb+") as file:
        os.fsync(file.fileno())
    os.replace(part, path)
