"""A stand-in for NVML: the GPUs of a machine, some of them sliced, and the processes on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace


class NVMLError(Exception):
    """As ``pynvml`` has it."""


@dataclass(eq=False)
class Card:
    """A GPU or a slice of one, which is its own handle.

    processes : the bytes that each holds, by its number
    slices : None where it cannot be sliced
    """

    name: str
    uuid: str
    gibibytes: float = 80
    capability: tuple[int, int] = (9, 0)
    used: int = 0
    processes: tuple[tuple[int, int | None], ...] = ()
    slices: list[Card] | None = field(default=None)


def stand_in(*cards, driver="580.65.06"):
    """What this program takes of ``pynvml``, on a machine with these GPUs."""

    def whole(card):
        if card not in cards:
            raise NVMLError("not of a slice")
        return card

    def mig_mode(card):
        if whole(card).slices is None:
            raise NVMLError("Not Supported")
        return [int(bool(card.slices)), 1]

    def slice_of(card, index):
        if index >= len(card.slices or ()):
            raise NVMLError("Not Found")
        return (card.slices or [])[index]

    def memory_of(card):
        if not card.gibibytes:
            raise NVMLError("Not Supported")
        return SimpleNamespace(total=int(card.gibibytes * 2**30), used=card.used)

    def processes_of(card):
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in card.processes]

    ids = {part: i for card in cards for i, part in enumerate(card.slices or (), start=7)}
    return SimpleNamespace(
        NVMLError=NVMLError,
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlSystemGetDriverVersion=lambda: driver,
        nvmlDeviceGetCount=lambda: len(cards),
        nvmlDeviceGetHandleByIndex=lambda index: cards[index],
        nvmlDeviceGetName=lambda card: card.name,
        nvmlDeviceGetUUID=lambda card: card.uuid,
        nvmlDeviceGetCudaComputeCapability=lambda card: list(whole(card).capability),
        nvmlDeviceGetMemoryInfo=memory_of,
        nvmlDeviceGetComputeRunningProcesses=processes_of,
        nvmlDeviceGetMigMode=mig_mode,
        nvmlDeviceGetMaxMigDeviceCount=lambda card: 7,
        nvmlDeviceGetMigDeviceHandleByIndex=slice_of,
        nvmlDeviceGetGpuInstanceId=ids.__getitem__,
        nvmlDeviceGetComputeInstanceId=lambda card: 0,
    )
