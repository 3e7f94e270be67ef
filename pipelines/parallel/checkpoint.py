"""Checkpoints of a training as safetensors, which run no code when they are read."""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.run_folder.names import replacing

if TYPE_CHECKING:
    import torch

UNSIGNED = b'"crc32":"00000000"'  # among the metadata, until the checkpoint is on a disk


@dataclass
class Progress:
    """The progress of a training; anything JSON can hold.

    Attributes
    ----------
    step : int
        Of all epochs.
    epoch, position : int
        The epoch that it is in, from 0, and the rows of it that all ranks have seen.
    loss : float
        Summed over those rows, as the weights were when each was seen.
    seconds, compute, communication, wait : float
        Of training, of all epochs; the last three of this epoch, the mean of the ranks.
    best, since_best : the lowest validation loss, and epochs since
    epochs : a row for each epoch that is done
    done : whether it has ended
    """

    step: int = 0
    epoch: int = 0
    position: int = 0
    loss: float = 0.0
    seconds: float = 0.0
    communication: float = 0.0
    wait: float = 0.0
    compute: float = 0.0
    best: float | None = None
    since_best: int = 0
    done: bool = False
    epochs: list[dict[str, Any]] = field(default_factory=list)


def to_bytes(tensors: dict[str, torch.Tensor], progress: Progress) -> bytes:
    """Return a checkpoint."""
    from safetensors.torch import save

    on_host = {name: one.detach().cpu().contiguous() for name, one in tensors.items()}
    about = {"progress": json.dumps(asdict(progress)), "crc32": "0" * 8}
    return save(on_host, metadata=about)


def from_bytes(content: bytes) -> tuple[dict[str, torch.Tensor], Progress]:
    """Read what ``to_bytes`` returned."""
    from safetensors.torch import load

    return load(content), progress_of(content)


def progress_of(content: bytes) -> Progress:
    """Return the numbers alone."""
    length = int.from_bytes(content[:8], "little")
    about = json.loads(content[8 : 8 + length])["__metadata__"]
    return Progress(**json.loads(about["progress"]))


def write(path: Path, content: bytes) -> None:
    """Replace a file in one step, once the disk has the new one; it bears its checksum."""
    content = content.replace(UNSIGNED, b'"crc32":"%08x"' % zlib.crc32(content), 1)
    with replacing(path) as file:
        file.write_bytes(content)


def read(path: Path) -> bytes | None:
    """Return a checkpoint, or None where there is none or it is damaged."""
    try:
        content = path.read_bytes()
        if signed := re.search(rb'"crc32":"([0-9a-f]{8})"', content):
            content = content.replace(signed[0], UNSIGNED, 1)
            if zlib.crc32(content) != int(signed[1], 16):
                return None
        progress_of(content)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return content
