"""Checkpoints of a training as safetensors files, which run no code when they are read.

The metadata have a checksum of the file, as safetensors itself does not notice damage to a tensor.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from pipelines.run_folder.names import replacing

if TYPE_CHECKING:
    import torch

UNSIGNED = b'"crc32":"00000000"'  # in the metadata, until the checkpoint is on disk
SIGNED = re.compile(rb'"crc32":"([0-9a-f]{8})"')
BLOCK = 2**24  # bytes that are read at once


@dataclass
class TrainingProgress:
    """The progress of a training, which goes into the checkpoint's metadata as JSON.

    Attributes
    ----------
    step : int
        Steps of the optimiser, over all epochs.
    epoch, position : int
        The current epoch, counted from 0, and how many of its rows all ranks together have seen.
    loss : float
        The loss summed over those rows, each with the weights at the step in which it was seen.
    seconds : float
        Seconds of training in all epochs; measuring losses is not counted.
    compute, communication, wait : float
        Seconds of the current epoch, as the mean of the ranks.
    best : float or None
        The lowest validation loss so far.
    since_best : int
        Epochs since then.
    epochs : list of dict
        A row for each finished epoch.
    done : bool
        Whether the training has ended.
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


def to_bytes(tensors: dict[str, torch.Tensor], progress: TrainingProgress) -> bytes:
    """A checkpoint as the content of a file, without a checksum."""
    from safetensors.torch import save

    return save(_on_host(tensors), metadata=_about(progress))


def _on_host(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


def _about(progress: TrainingProgress) -> dict[str, str]:
    return {"progress": json.dumps(asdict(progress)), "crc32": "0" * 8}


def from_bytes(content: bytes) -> tuple[dict[str, torch.Tensor], TrainingProgress]:
    """The tensors and the progress in a checkpoint."""
    from safetensors.torch import load

    return load(content), progress_of(content)


def progress_of(content: bytes) -> TrainingProgress:
    """The progress in a checkpoint, without reading its tensors."""
    length = int.from_bytes(content[:8], "little")
    about = json.loads(content[8 : 8 + length])["__metadata__"]
    return TrainingProgress(**json.loads(about["progress"]))


def write_checkpoint(
    path: Path, tensors: Mapping[str, torch.Tensor], progress: TrainingProgress
) -> None:
    """Write a checkpoint with its checksum; it replaces an earlier one only when it is complete."""
    from safetensors.torch import save_file

    with replacing(path) as unsigned:
        save_file(_on_host(tensors), unsigned, metadata=_about(progress))
        # From the file, as a checkpoint of bytes would be a second copy of all tensors in memory.
        with unsigned.open("r+b") as file:
            header, checksum = _header_and_checksum(file)
            file.seek(header.index(UNSIGNED) + UNSIGNED.index(b"0"))
            file.write(b"%08x" % checksum)


def _header_and_checksum(file: BinaryIO) -> tuple[bytes, int]:
    """The header of a checkpoint, and the CRC-32 of the file as it was before it was signed."""
    length = int.from_bytes(file.read(8), "little")
    file.seek(0)
    header = file.read(8 + length)
    checksum = zlib.crc32(SIGNED.sub(UNSIGNED, header, count=1))
    while block := file.read(BLOCK):
        checksum = zlib.crc32(block, checksum)
    return header, checksum


def is_whole(path: Path) -> bool:
    """Whether a file is an undamaged checkpoint."""
    try:
        with path.open("rb") as file:
            header, checksum = _header_and_checksum(file)
        progress_of(header)
    except (OSError, ValueError, KeyError, TypeError, OverflowError, MemoryError):
        return False
    signed = SIGNED.search(header)
    return signed is None or int(signed[1], 16) == checksum  # older versions wrote no checksum


def read(path: Path) -> bytes | None:
    """A checkpoint; None if there is none, or it is damaged.

    A training in stages has a file for each rank. Of those the result has the progress alone, as
    each rank maps the tensors of its own stages.
    """
    if is_whole(path):
        return path.read_bytes()
    files = stage_files(path)
    return to_bytes({}, StoredStages(path, files).progress) if files else None


def stage_file(path: Path, step: int, part: int, n_parts: int) -> Path:
    """The file of one rank's stages.

    Parameters
    ----------
    path : Path
        What the checkpoint would be called in one file.
    step : int
        The step after which it is written.
    part, n_parts : int
        The rank in its pipeline, counted from 0, and the number of ranks of the pipeline.
    """
    return path.with_name(f"{path.stem}.step-{step}.part-{part + 1}-of-{n_parts}{path.suffix}")


def stage_files(path: Path) -> list[Path]:
    """The files of the last step for which all ranks have an undamaged one; else empty.

    A rank that is lost while others write leaves a step incomplete: then the step before counts.
    """
    pattern = re.compile(re.escape(path.stem) + r"\.step-(\d+)\.part-\d+-of-(\d+)")
    steps = {
        (int(words[1]), int(words[2]))
        for file in path.parent.glob(f"*{path.suffix}")
        if (words := pattern.fullmatch(file.stem))
    }
    for step, n_parts in sorted(steps, reverse=True):
        files = [stage_file(path, step, part, n_parts) for part in range(n_parts)]
        if all(map(is_whole, files)):
            return files
    return []


def remove_earlier_stages(path: Path) -> None:
    """Remove the stage files of all steps but the last, after a training has ended."""
    last = stage_files(path)
    for file in path.parent.glob(f"{path.stem}.step-*{path.suffix}"):
        if last and file not in last:
            file.unlink(missing_ok=True)


class StoredStages(Mapping[str, "torch.Tensor"]):
    """The tensors of a network in stages by name, mapped from the files of its ranks.

    Parameters
    ----------
    path : Path
        What the checkpoint would be called in one file.
    files : sequence of Path, optional
        Files of one step; by default those of ``stage_files``.

    Attributes
    ----------
    progress : TrainingProgress
    """

    def __init__(self, path: Path, files: Sequence[Path] | None = None) -> None:
        from safetensors import safe_open

        handles = [safe_open(file, "pt") for file in files or stage_files(path)]
        self._files = {name: file for file in handles for name in (*file.keys(),)}
        all_progress = [
            TrainingProgress(**json.loads(file.metadata()["progress"])) for file in handles
        ]
        # Within an epoch only the rank of the last stage has the loss; the others store 0.
        loss = max(progress.loss for progress in all_progress)
        self.progress = replace(all_progress[0], loss=loss)

    def __getitem__(self, name: str) -> torch.Tensor:
        return self._files[name].get_tensor(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)
