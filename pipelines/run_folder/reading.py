"""Read what a run left in its folder; pieces that are missing stay empty."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipelines.errors import InputError
from pipelines.run_folder import names


@dataclass(frozen=True)
class Unit:
    """One unit of work: what it was, and where and when it ran.

    ``started`` is in Unix seconds; ``gamma`` is NaN where the unit's rows do
    not share one.
    """

    name: str
    worker: str
    started: float
    seconds: float
    gamma: float = math.nan
    n_failed: int = 0

    @property
    def ended(self) -> float:
        return self.started + self.seconds


@dataclass(frozen=True)
class WrongImages:
    """The wrongly classified test points of an image data set.

    ``row``, ``true`` and ``predicted`` have shape (m,), ``images`` (m, h, w).
    """

    row: np.ndarray
    true: np.ndarray
    predicted: np.ndarray
    images: np.ndarray


@dataclass(frozen=True)
class RunFolder:
    """All that a report draws from.

    ``cells`` has one row per cell and ``candidates`` one per candidate, best
    first; both are empty tables where the run got no further. What a command
    leaves beside these is in a class of its own.
    """

    path: Path
    run: Mapping[str, Any]
    cells: pd.DataFrame
    candidates: pd.DataFrame
    units: tuple[Unit, ...]
    predictions: pd.DataFrame | None
    wrong_images: WrongImages | None

    def part(self, key: str) -> Mapping[str, Any]:
        """A section of ``run.json``, such as ``dataset``; empty where it is missing."""
        value = self.run.get(key)
        return value if isinstance(value, Mapping) else {}

    def number(self, key: str) -> float | None:
        """A number of ``run.json``; None where it is missing or not finite."""
        return finite(self.run.get(key))

    @property
    def classes(self) -> list[str]:
        return [str(name) for name in self.part("dataset").get("classes") or []]

    @property
    def n_folds(self) -> int | None:
        """The folds asked for, else those the cells have."""
        folds = self.part("options").get("folds")
        if isinstance(folds, int):
            return folds
        return None if self.cells.empty else int(self.cells["fold"].nunique())

    @property
    def image_shape(self) -> tuple[int, int] | None:
        """Height and width of the images in pixels; None for a table."""
        shape = self.part("dataset").get("image_shape")
        if not isinstance(shape, list | tuple) or [type(side) for side in shape] != [int, int]:
            return None
        return shape[0], shape[1]


def read_run_folder(
    folder: Path,
    *,
    cells: Sequence[str],
    candidates: Sequence[str],
    predictions: Sequence[str],
    cells_of: Callable[[list[dict[str, Any]]], pd.DataFrame],
    candidates_of: Callable[[RunFolder], pd.DataFrame],
) -> RunFolder:
    """Read what every command leaves in a folder.

    Parameters
    ----------
    folder : Path
    cells, candidates, predictions : columns that these tables must have
    cells_of : function of the journal, gives the cells of a run that wrote no table of them
    candidates_of : function of such a run, gives its candidates

    Raises
    ------
    InputError
        When there is no readable ``run.json``, or a file is damaged.
    """
    folder = Path(folder)
    record, journal = read_record(folder), list(read_journal(folder / names.JOURNAL))
    found = read_table(folder / names.CELLS, cells)
    run = RunFolder(
        path=folder,
        run=record,
        cells=cells_of(journal) if found is None else found,
        candidates=pd.DataFrame(),
        units=tuple(sorted(map(unit_of, journal), key=lambda unit: unit.started)),
        predictions=read_table(folder / names.PREDICTIONS, predictions),
        wrong_images=None,
    )
    found = read_table(folder / names.CANDIDATES, candidates)
    return replace(
        run,
        candidates=candidates_of(run) if found is None else found,
        wrong_images=read_wrong_images(folder / names.WRONG, run.image_shape),
    )


def finite(value: object) -> float | None:
    """The number, or None where there is none or it is not finite."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def latest_run(command: str, results: str | Path = "results") -> Path:
    """The folder of the newest run of a command below ``results``.

    Raises
    ------
    InputError
        There is none.
    """
    found = [path.parent for path in Path(results).glob("*/run.json")]
    runs = [folder for folder in found if read_record(folder).get("command") == command]
    if not runs:
        raise InputError(
            f"results must hold a run of {command}, got {str(results)!r}: "
            f"start one with python -m pipelines.{command}"
        )
    return max(runs, key=lambda folder: (folder / names.RECORD).stat().st_mtime)


def read_record(folder: Path) -> dict[str, Any]:
    """The content of ``run.json``.

    Raises
    ------
    InputError
        There is none, or it holds no JSON object.
    """
    way_out = "name a folder that a command wrote with --results"
    path = folder / names.RECORD
    if not path.is_file():
        problem = "with a run.json" if folder.is_dir() else "that exists"
        raise InputError(f"RUN must be a run folder {problem}, got {str(folder)!r}: {way_out}")
    try:
        run = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(
            f"RUN must hold a run.json that is JSON, got {str(path)!r} ({_one_line(error)}): "
            f"{way_out}"
        ) from None
    if not isinstance(run, dict):
        raise InputError(
            f"RUN must hold a run.json with one object, got {str(path)!r} with a "
            f"{type(run).__name__}: {way_out}"
        )
    return run


def read_table(path: Path, columns: Sequence[str]) -> pd.DataFrame | None:
    """A Parquet file with these columns; None where there is none.

    Raises
    ------
    InputError
        It cannot be read, or a column is missing.
    """
    if not path.is_file():
        return None
    try:
        table = pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise damaged(path, "a Parquet file", error) from None
    missing = [name for name in columns if name not in table.columns]
    if missing:
        raise damaged(path, "a table with " + ", ".join(columns), f"no {', '.join(missing)}")
    return table


def read_wrong_images(path: Path, shape: tuple[int, int] | None) -> WrongImages | None:
    """The wrong test points of an image data set; None where there is no such file.

    Raises
    ------
    InputError
        The file is damaged.
    """
    if not path.is_file() or shape is None:
        return None
    try:
        with np.load(path, allow_pickle=False) as arrays:
            row, true, predicted, pixels = (
                arrays[name] for name in ("row", "true", "predicted", "X")
            )
        images = pixels.reshape(len(row), *shape)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise damaged(
            path,
            f"an .npz file of row, true, predicted and {shape[0]} x {shape[1]} images X",
            error,
        ) from None
    return WrongImages(row, true, predicted, images)


def damaged(path: Path, rule: str, problem: object) -> InputError:
    """The error of a file in the folder that breaks its rule."""
    return InputError(
        f"RUN must hold in {path.name} {rule}, got {str(path)!r} ({_one_line(problem)}): "
        "remove that file to draw the rest, or resume the run to write it again"
    )


def _one_line(problem: object) -> str:
    lines = str(problem).splitlines()
    return lines[0] if lines else type(problem).__name__


def read_journal(path: Path) -> Iterator[dict[str, Any]]:
    """The records of units that have a time; lines that are damaged are passed over."""
    if not path.is_file():
        return
    # A run that was killed may have cut a line anywhere, even inside a character.
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if isinstance(entry, dict) and None not in (
                finite(entry.get("started")),
                finite(entry.get("seconds")),
            ):
                yield entry


def rows_of(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of a record of the journal."""
    rows = entry.get("rows")
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def unit_of(entry: Mapping[str, Any]) -> Unit:
    """A record of the journal as the timeline draws it."""
    rows = rows_of(entry)
    gammas = {gamma for row in rows if (gamma := finite(row.get("gamma"))) is not None}
    return Unit(
        name=str(entry.get("unit", "")),
        worker=str(entry.get("worker", "")),
        started=float(entry["started"]),
        seconds=max(0.0, float(entry["seconds"])),
        gamma=gammas.pop() if len(gammas) == 1 else math.nan,
        n_failed=sum(str(row.get("status", "ok")).startswith("failed") for row in rows),
    )
