"""The members of a run on disk: weights that run no code, and what they say of the test points."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from pipelines.nn.member import Ensemble, Member
from pipelines.run_folder import names


class MemberFiles:
    """The folder ``members`` of a run: two files for each member, whole or not there.

    Parameters
    ----------
    run : Path
        The run's folder.
    """

    def __init__(self, run: Path) -> None:
        self.path = run / names.MEMBER_FILES

    def weights(self, member: int) -> Path:
        """Where the weights of a member lie."""
        return self.path / f"member-{member:02d}.safetensors"

    def _probabilities(self, member: int) -> Path:
        return self.path / f"member-{member:02d}.npy"

    def has(self, member: int) -> bool:
        """Whether both files of a member are there."""
        return self.weights(member).is_file() and self._probabilities(member).is_file()

    def save(
        self, number: int, member: Member, probabilities: np.ndarray, classes: np.ndarray
    ) -> None:
        """Store a member, on disk when this returns.

        Parameters
        ----------
        number : int
        member : Member
        probabilities : float32 array of shape (n_points, n_classes)
        classes : labels of shape (n_classes,)

        Raises
        ------
        OSError
            The disk is full or cannot be written.
        """
        self.path.mkdir(exist_ok=True)
        alone = Ensemble([member], classes)
        _write_whole(self.weights(number), lambda path: alone.save(path, member=number))

        def write(path: Path) -> None:
            with path.open("wb") as file:
                np.save(file, probabilities, allow_pickle=False)

        _write_whole(self._probabilities(number), write)

    def probabilities(self, member: int) -> np.ndarray:
        """What a member said, as ``save`` was given it."""
        found: np.ndarray = np.load(self._probabilities(member), allow_pickle=False)
        return found

    def numbers(self) -> list[int]:
        """The members that have weights here, in order."""
        found = self.path.glob("member-*.safetensors")
        return sorted(int(path.stem.removeprefix("member-")) for path in found)


def _write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Write a file under another name first, so that a kill leaves no half of it."""
    part = path.with_name(path.name + ".part")
    write(part)
    with part.open("rb+") as file:
        os.fsync(file.fileno())
    os.replace(part, path)
