"""Read what a run left in its folder; pieces that are missing stay empty."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

CELL_COLUMNS = (
    "C", "gamma", "fold", "n_train", "n_validation", "n_errors", "error", "n_support",
    "n_iterations", "fit_seconds", "score_seconds", "worker", "status",
)  # fmt: skip
CANDIDATE_COLUMNS = ("C", "gamma", "error_mean", "error_std", "n_ok", "rank")
ACCURACY = "accuracy"  # the scoring of a run that names none: 1 - error


class RunFolderError(ValueError):
    """A folder that is no run folder, or a file in it that cannot be read.

    The message is one line: the argument, the rule, the value, the way out.
    """


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
class Candidate:
    """A setting of the hyper-parameters, its cross-validation error and score."""

    C: float
    gamma: float
    error_mean: float
    error_std: float
    score_mean: float = math.nan
    score_std: float = math.nan


@dataclass(frozen=True)
class RunFolder:
    """All that a report draws from.

    ``cells`` has one row per cell and ``candidates`` one per (C, gamma), best
    first; both are empty tables where the run got no further.
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
    def best(self) -> Candidate | None:
        """The best candidate: as the run recorded it, else rank 1 of the candidates."""
        recorded = self.part("best")
        if all(finite(recorded.get(key)) is not None for key in ("C", "gamma", "error_mean")):
            return _candidate(recorded)
        scored = self.candidates[self.candidates["error_mean"].notna()]
        return None if scored.empty else _candidate(scored.iloc[0].to_dict())

    @property
    def scoring(self) -> str:
        """What chose the best candidate."""
        return str(self.part("options").get("scoring") or ACCURACY)


def _candidate(values: Mapping[Any, Any]) -> Candidate:
    names = ("C", "gamma", "error_mean", "error_std", "score_mean", "score_std")
    numbers = (finite(values.get(name)) for name in names)
    return Candidate(*(math.nan if number is None else number for number in numbers))


def read_run_folder(folder: Path) -> RunFolder:
    """Read a run folder.

    Raises
    ------
    RunFolderError
        When there is no readable ``run.json``, or a file is damaged.
    """
    folder = Path(folder)
    run = _read_run_json(folder)
    journal = list(_read_journal(folder / "journal.jsonl"))
    cells = _read_table(folder / "cv_results.parquet", CELL_COLUMNS)
    if cells is None:
        cells = _cells_of(journal)
    candidates = _read_table(folder / "candidates.parquet", CANDIDATE_COLUMNS)
    if candidates is None:
        options = run.get("options")
        n_folds = options.get("folds") if isinstance(options, Mapping) else None
        known = n_folds if isinstance(n_folds, int) else cells["fold"].nunique()
        candidates = candidates_of(cells, known)
    candidates = candidates.sort_values(["rank", "C", "gamma"], kind="stable")
    dataset = run.get("dataset")
    shape = dataset.get("image_shape") if isinstance(dataset, Mapping) else None
    return RunFolder(
        path=folder,
        run=run,
        cells=cells,
        candidates=candidates.reset_index(drop=True),
        units=tuple(sorted(map(_unit_of, journal), key=lambda unit: unit.started)),
        predictions=_read_table(folder / "test_predictions.parquet", ("row", "true", "predicted")),
        wrong_images=_read_wrong_images(folder / "test_errors.npz", shape),
    )


def candidates_of(cells: pd.DataFrame, n_folds: int) -> pd.DataFrame:
    """Mean and standard deviation of each candidate's error and score, best score first.

    A candidate with a failed fold has no mean. One of which some folds are
    still to come is left out: it cannot be compared yet.
    """
    if cells.empty:
        return pd.DataFrame(columns=list(CANDIDATE_COLUMNS), dtype=float)
    by_candidate = cells.assign(score=_scores(cells)).groupby(["C", "gamma"])
    table = pd.DataFrame(
        {
            f"{name}_{kind}": value
            for name in ("error", "score")
            for kind, value in (
                ("mean", by_candidate[name].mean()),
                ("std", by_candidate[name].std(ddof=0)),
            )
        }
    )
    means = list(table.columns)
    table["n_ok"] = by_candidate["score"].count()
    n_failed = by_candidate.size() - table["n_ok"]
    table.loc[n_failed > 0, means] = math.nan
    table = table[(n_failed > 0) | (table["n_ok"] >= n_folds)].reset_index()
    # A mean carries rounding; candidates closer than this are tied.
    table["tie"] = -table["score_mean"].round(12)
    table = table.sort_values(["tie", "C", "gamma"], na_position="last").drop(columns="tie")
    table["rank"] = np.arange(1, len(table) + 1)
    return table


def _scores(cells: pd.DataFrame) -> pd.Series[float]:
    """Scores of cells; a run begun before there were scorings has errors alone."""
    accuracy = 1 - cells["error"]
    return cells["score"].fillna(accuracy) if "score" in cells else accuracy


def finite(value: object) -> float | None:
    """The number, or None where there is none or it is not finite."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def _read_run_json(folder: Path) -> dict[str, Any]:
    way_out = "name a folder that a command wrote with --results"
    path = folder / "run.json"
    if not path.is_file():
        problem = "with a run.json" if folder.is_dir() else "that exists"
        raise RunFolderError(f"RUN must be a run folder {problem}, got {str(folder)!r}: {way_out}")
    try:
        run = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RunFolderError(
            f"RUN must hold a run.json that is JSON, got {str(path)!r} ({_one_line(error)}): "
            f"{way_out}"
        ) from None
    if not isinstance(run, dict):
        raise RunFolderError(
            f"RUN must hold a run.json with one object, got {str(path)!r} with a "
            f"{type(run).__name__}: {way_out}"
        )
    return run


def _read_table(path: Path, columns: tuple[str, ...]) -> pd.DataFrame | None:
    if not path.is_file():
        return None
    try:
        table = pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise _damaged(path, "a Parquet file", error) from None
    missing = [name for name in columns if name not in table.columns]
    if missing:
        raise _damaged(path, "a table with " + ", ".join(columns), f"no {', '.join(missing)}")
    return table


def _read_wrong_images(path: Path, shape: object) -> WrongImages | None:
    if not path.is_file() or not isinstance(shape, list | tuple) or len(shape) != 2:
        return None
    try:
        with np.load(path, allow_pickle=False) as arrays:
            row, true, predicted, pixels = (
                arrays[name] for name in ("row", "true", "predicted", "X")
            )
        images = pixels.reshape(len(row), int(shape[0]), int(shape[1]))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise _damaged(
            path,
            f"an .npz file of row, true, predicted and {shape[0]} x {shape[1]} images X",
            error,
        ) from None
    return WrongImages(row, true, predicted, images)


def _damaged(path: Path, rule: str, problem: object) -> RunFolderError:
    return RunFolderError(
        f"RUN must hold in {path.name} {rule}, got {str(path)!r} ({_one_line(problem)}): "
        "remove that file to draw the rest, or resume the run to write it again"
    )


def _one_line(problem: object) -> str:
    lines = str(problem).splitlines()
    return lines[0] if lines else type(problem).__name__


def _read_journal(path: Path) -> Iterator[dict[str, Any]]:
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


def _rows_of(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows = entry.get("rows")
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _unit_of(entry: Mapping[str, Any]) -> Unit:
    rows = _rows_of(entry)
    gammas = {gamma for row in rows if (gamma := finite(row.get("gamma"))) is not None}
    return Unit(
        name=str(entry.get("unit", "")),
        worker=str(entry.get("worker", "")),
        started=float(entry["started"]),
        seconds=max(0.0, float(entry["seconds"])),
        gamma=gammas.pop() if len(gammas) == 1 else math.nan,
        n_failed=sum(str(row.get("status", "ok")).startswith("failed") for row in rows),
    )


def _cells_of(journal: list[dict[str, Any]]) -> pd.DataFrame:
    """The cells of a run that ended before it wrote its table."""
    rows = [
        {"worker": str(entry.get("worker", "")), **row}
        for entry in journal
        for row in _rows_of(entry)
        if {"C", "gamma", "fold"} <= row.keys()
    ]
    if not rows:
        return pd.DataFrame(columns=list(CELL_COLUMNS), dtype=float)
    table = pd.DataFrame(rows).reindex(columns=[*CELL_COLUMNS, "score"])
    for name in ("error", "score"):
        table[name] = pd.to_numeric(table[name], errors="coerce")
    return table.drop_duplicates(["C", "gamma", "fold"], keep="last").reset_index(drop=True)
