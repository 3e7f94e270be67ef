"""How a network is trained, whatever the candidate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

PRECISIONS = ("fp32", "tf32")
# (rows of a step, most epochs), by network where it differs from the others'.
SCHEDULE = {"table": (512, 200)}


@dataclass(frozen=True)
class Training:
    """Settings of a run.

    Attributes
    ----------
    batch_size : int
        Rows of a step; the last of an epoch takes what is left.
    max_epochs : int
    least_fall : float
        Training ends with an epoch whose mean loss is not below that of the epoch before
        by more than this part of it; that of a network for tables ends as
        ``pipelines.nn.left_out`` says.
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
        cls, network: str, batch_size: int | None, max_epochs: int | None, **settings: Any
    ) -> Training:
        """Settings with the schedule of a kind of network where it is not given."""
        batch, epochs = SCHEDULE.get(network, (cls.batch_size, cls.max_epochs))
        return cls(batch_size or batch, max_epochs or epochs, **settings)
