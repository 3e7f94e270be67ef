"""The trainings of a run: what is compared with what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Training:
    """One training of one network; hashable.

    Attributes
    ----------
    strategy : as it is typed
    ranks : asked for
    repeat : from 0; it decides the seed, so that strategies begin with the same weights
    """

    strategy: str
    ranks: int
    repeat: int
    cost: float = 1.0

    @property
    def name(self) -> str:
        return f"{self.strategy} on {self.ranks}, repeat {self.repeat + 1}"

    @property
    def file(self) -> str:
        """Name of its checkpoint."""
        return f"{self.strategy}-on-{self.ranks}-{self.repeat + 1}.safetensors"

    def seed(self, seed: int) -> int:
        """Return the seed of its first weights and of the order of its rows."""
        spawned = np.random.SeedSequence(seed).spawn(self.repeat + 1)[-1]
        return int(spawned.generate_state(1)[0])

    def rows(self, epochs: list[dict[str, Any]], status: str = "ok") -> list[dict[str, Any]]:
        """Return its epochs as rows of the run's table; one row without numbers if it failed."""
        mine = {"strategy": self.strategy, "ranks": self.ranks, "repeat": self.repeat}
        return [{**mine, **row, "status": status} for row in epochs or [{"epoch": 0}]]
