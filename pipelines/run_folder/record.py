"""``run.json``, read and held against the schema of its command, a file for each."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from pipelines.errors import InputError
from pipelines.run_folder.names import RECORD
from pipelines.run_folder.records.base import Record
from pipelines.run_folder.schema import MOST_CLASSES, one_line, read_bytes

WAY_OUT = "name a folder that a command wrote with --results"

# The schema of each command, in the file of ``records`` that has its name: a run imports its own.
RECORDS = {
    "svm_grid": "SvmRecord", "nn_bagging": "BaggingRecord", "pagerank": "GraphRecord",
    "cross_validate": "ValidationRecord", "data_parallel": "TrainingRecord",
}  # fmt: skip


def read_record(folder: Path, argument: str = "RUN") -> tuple[dict[str, Any], Record]:
    """Return ``run.json`` as it stands, and held against the schema of its command.

    Parameters
    ----------
    folder : Path
    argument : what the caller named the folder with, for the message

    Raises
    ------
    InputError
        There is none, or it breaks its schema.
    """
    path = folder / RECORD
    if not path.is_file():
        problem = f"with a {RECORD}" if folder.is_dir() else "that exists"
        raise InputError(
            f"{argument} must be a run folder {problem}, got {str(folder)!r}: {WAY_OUT}"
        )
    try:
        metadata = from_json(content := read_bytes(path))
        if not isinstance(metadata, dict):
            raise ValueError(f"it holds a {type(metadata).__name__}, not one object")
        record = _schema_of(str(metadata.get("command"))).model_validate_json(content)
        _refuse_impossible(record)
    except OSError as error:
        raise InputError(
            f"{argument} must be a run folder that can be read, got {str(path)!r} "
            f"({error.strerror}): {WAY_OUT}"
        ) from None
    except (ValueError, ValidationError) as error:
        raise InputError(
            f"{argument} must hold a {RECORD} as a command writes it, got {str(path)!r}, which is "
            f"damaged ({one_line(error)}): {WAY_OUT}"
        ) from None
    return metadata, record


def _schema_of(command: str) -> type[Record]:
    if command not in RECORDS:
        return Record
    module = import_module(f"pipelines.run_folder.records.{command}")
    schema: type[Record] = getattr(module, RECORDS[command])
    return schema


def _refuse_impossible(record: Record) -> None:
    dataset = record.dataset
    if len(dataset.classes) > MOST_CLASSES:
        raise ValueError(f"dataset.classes: more than {MOST_CLASSES:,} classes")
    if dataset.image_shape is not None and len(dataset.image_shape) not in (2, 3):
        raise ValueError("dataset.image_shape: not a height and a width, nor channels before them")
