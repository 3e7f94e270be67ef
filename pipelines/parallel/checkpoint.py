"""Checkpoints of a training as safetensors, which run no code when they are read."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
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
    """Return a checkpoint, or None where there is none or it is damaged; of stages the progress."""
    if content := _read(path):
        return content
    files = stage_files(path)
    return to_bytes({}, StoredStages(path, files).progress) if files else None


def stage_file(path: Path, step: int, part: int, n_parts: int) -> Path:
    """Return the file of a rank's stages, whose checkpoint would have the path."""
    return path.with_name(f"{path.stem}.step-{step}.part-{part + 1}-of-{n_parts}{path.suffix}")


def stage_files(path: Path) -> list[Path]:
    """Return the files of the last step of which all stages have one that is whole."""
    pattern = re.compile(re.escape(path.stem) + r"\.step-(\d+)\.part-\d+-of-(\d+)")
    steps = {
        (int(words[1]), int(words[2]))
        for file in path.parent.glob(f"*{path.suffix}")
        if (words := pattern.fullmatch(file.stem))
    }
    for step, n_parts in sorted(steps, reverse=True):
        files = [stage_file(path, step, part, n_parts) for part in range(n_parts)]
        if all(_read(file) is not None for file in files):
            return files
    return []


def remove_earlier_stages(path: Path) -> None:
    """Remove the files of stages that a training left on its way, once it has ended."""
    last = stage_files(path)
    for file in path.parent.glob(f"{path.stem}.step-*{path.suffix}"):
        if last and file not in last:
            file.unlink(missing_ok=True)


class StoredStages(Mapping[str, "torch.Tensor"]):
    """The tensors of a network that lies in several files, by name; mapped from disk.

    Attributes
    ----------
    progress : of the training
    """

    def __init__(self, path: Path, files: Sequence[Path] | None = None) -> None:
        from safetensors import safe_open

        opened = [safe_open(file, "pt") for file in files or stage_files(path)]
        self._files = {name: file for file in opened for name in (*file.keys(),)}
        all_progress = [Progress(**json.loads(file.metadata()["progress"])) for file in opened]
        # Which the last stage alone has within an epoch.
        loss = max(progress.loss for progress in all_progress)
        self.progress = replace(all_progress[0], loss=loss)

    def __getitem__(self, name: str) -> torch.Tensor:
        return self._files[name].get_tensor(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


def _read(path: Path) -> bytes | None:
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
