"""Training settings that all candidates share, and their requirements."""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from pipelines.errors import InputError

PRECISIONS = ("fp32", "tf32")
# Of a network for tables: rows of a step, and steps at most, in so many epochs.
BATCH, STEPS, EPOCHS = 256, 200, (20, 200)


@dataclass(frozen=True)
class Training:
    """Settings of a run.

    Attributes
    ----------
    batch_size : int
        Rows of a step; the last of an epoch takes what is left.
    least_fall : float
        Training ends with an epoch whose mean loss is not below that of the epoch before
        by more than this part of it; that of a network for tables ends as
        ``pipelines.nn.early_stopping`` says.
    precision : {"fp32", "tf32"}
        Of products on a GPU; a CPU computes in single precision.
    device : {"cpu", "gpu"}
    n_threads : int
        Of this process, on a CPU. The bits of a result may depend on it, so that a run
        that is to be repeated elsewhere leaves it at 1.
    memory_bytes : int, optional
        What training may take of the device, its data included; on a GPU, by default,
        what is free there; on a CPU no limit.
    """

    batch_size: int = 10
    max_epochs: int = 20
    least_fall: float = 0.2
    precision: str = "fp32"
    device: str = "cpu"
    n_threads: int = 1
    memory_bytes: int | None = None

    @classmethod
    def of(
        cls, network: str, n_rows: int, batch_size: int | None = None,
        max_epochs: int | None = None, **settings: Any,
    ) -> Training:  # fmt: skip
        """Return settings, with the default schedule of a kind of network where none is given."""
        batch, epochs = cls.batch_size, cls.max_epochs
        if network == "table":
            batch, (fewest, most) = BATCH, EPOCHS
            epochs = min(max(STEPS // math.ceil(n_rows / (batch_size or batch)), fewest), most)
        return cls(batch_size or batch, max_epochs or epochs, **settings)


def need_torch() -> None:
    """Raise a one-line error if torch is missing.

    Raises
    ------
    InputError
        It is not installed.
    """
    if find_spec("torch") is None:
        raise InputError(
            "networks need torch, which is not installed; install the nn extra: "
            "pip install -c constraints.txt '.[nn]'"
        )
