"""The runs in a folder as rows of a table, from their ``run.json`` alone, and conditions on them.

Nothing heavy is imported here: a list of a thousand runs takes about a second.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from fnmatch import fnmatchcase
from operator import eq, ge, gt, le, lt, ne
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import InputError, nearest, opt
from pipelines.report.wording import significant
from pipelines.run_folder.measures import Measure, measure_of
from pipelines.run_folder.names import RECORD
from pipelines.run_folder.record import Record, read_record, splits_of_best_in_words
from pipelines.run_folder.schema import DAMAGE, one_line

if TYPE_CHECKING:
    import pandas as pd

EMPTY = "–"  # what is read where there is no value
MOST_LINES = 10  # on what was left out
LONGEST = 60  # letters of the best candidate
EXAMPLE = '"test_error < 0.02"'
TIME, TEXT, NUMBER = "a time", "text", "a number"


@dataclass(frozen=True)
class RunRow:
    """A run as a row of a table of runs; the fields are its columns, in their order.

    Attributes
    ----------
    name : of its folder, from the folder that was searched
    started : in UTC, as ``2026-11-20T13:08:49``
    command : as it is typed
    data : name of its data set
    n_train : number of training samples
    best : the best candidate, in few words
    measure : what the scores measure: ``error``, ``r2``, ``mean absolute error``
    cv_error, test_error : fractions, None of what has no classes
    cv_score, test_score : the same of another measure than the error
    cv_std : standard deviation of either over the folds
    status : ``finished``, ``running``, ``stopped`` or ``failed``
    seconds : how long it took
    workers : how many it had
    folder : its path
    """

    name: str
    started: str
    command: str
    data: str
    n_train: int | None
    best: str
    measure: str
    cv_error: float | None
    cv_score: float | None
    cv_std: float | None
    test_error: float | None
    test_score: float | None
    status: str
    seconds: float | None
    workers: int | None
    folder: str


COLUMNS = {
    field.name: TIME if field.name == "started" else TEXT if field.type == "str" else NUMBER
    for field in fields(RunRow)
}


def run_row(name: str, folder: Path, metadata: Mapping[str, Any], record: Record) -> RunRow:
    """Give a run as a row, from its ``run.json``."""
    measure, best = measure_of_run(metadata, record), record.best
    std = None if best is None else best.error_std if measure.is_error else best.score_std
    score = None if best is None or best.score_mean is None else measure.of(best.score_mean)
    if measure.is_error and best is not None and best.error_mean is not None:
        score = best.error_mean  # not rounded anew, and all that older runs have
    measures = {name: measure_of(name) for name in record.test_scores}
    test_values = {
        measures[name].name: measures[name].of(value)
        for name, value in record.test_scores.items()
        if value is not None
    }
    test = test_values.get(measure.name, metadata.get("test_metric"))
    return RunRow(
        name=name,
        started=(record.started or "")[:19],
        command=record.command.replace("_", "-"),
        data=record.dataset.name or "",
        n_train=record.dataset.n_train,
        best=best_in_words(metadata, record),
        measure=""
        if score is None and test is None and record.test_error is None
        else measure.name,
        cv_error=score if measure.is_error else None,
        cv_score=None if measure.is_error else score,
        cv_std=std,
        test_error=test if measure.is_error and record.test_error is None else record.test_error,
        test_score=None if measure.is_error else test,
        status=record.status,
        seconds=record.wall_seconds,
        workers=record.cluster.n_workers,
        folder=str(folder),
    )


def run_scoring(metadata: Mapping[str, Any], record: Record) -> str | None:
    """Name the scoring by which the best was chosen; None for the accuracy, or where none was.

    A search of several scorings chooses by the first, and one that was asked for none says which
    it took beside its answer or, of numbers, beside its baseline.
    """
    for scoring in (metadata.get("scoring"), record.options.scoring):
        if scoring:
            return scoring if isinstance(scoring, str) else str(scoring[0])
    return record.baseline.scoring if record.baseline is not None else None


def measure_of_run(metadata: Mapping[str, Any], record: Record) -> Measure:
    """Say what the scores of a run measure."""
    if isinstance(metric := metadata.get("metric"), str):  # a command that trains, and scores none
        return Measure(metric, is_error=metric == "error", is_loss=True)
    return measure_of(run_scoring(metadata, record))


def best_in_words(metadata: Mapping[str, Any], record: Record) -> str:
    """Name the best candidate in few words, of ranks the highest node; empty if there is none."""
    if record.best is None:
        if top := metadata.get("top"):
            return f"node {top[0]['node']}"
        n_members = metadata.get("options", {}).get("n_bootstrap")
        return f"{n_members} members" if n_members and record.test_error is not None else ""
    values = dict(record.best.model_extra or {})
    algorithm, parameters = values.pop("algorithm", None), values.pop("parameters", {})
    if algorithm is not None:
        values = dict(parameters)  # its number says nothing to who reads
    words = [] if algorithm is None else [str(algorithm).rpartition(".")[2]]
    for name, value in values.items():
        if value is not None:
            text = significant(value) if isinstance(value, float) else str(value)
            words.append(text if name == "training" else f"{name} {text}")
    if record.best.n_splits is not None or record.best.share is not None:
        words.append(f"of {splits_of_best_in_words(metadata)}")
    text = " ".join(", ".join(words).split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def find_runs(root: Path, unreadable: list[str]) -> Iterator[Path]:
    """Yield the run folders in a folder, at any depth; within a run none is looked for.

    Hidden folders are left out; links are followed, each folder is seen once. ``unreadable`` gets a
    line for each folder that cannot be read.
    """
    pending_folders, seen_folders = [root], set()
    while pending_folders:
        folder = pending_folders.pop()
        try:
            status = folder.stat()
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
            subfolders = [Path(entry.path) for entry in entries if entry.is_dir()]
        except OSError as error:
            unreadable.append(f"{str(folder)!r}, which cannot be read ({error.strerror})")
            continue
        if (status.st_dev, status.st_ino) in seen_folders:
            continue
        seen_folders.add((status.st_dev, status.st_ino))
        if any(entry.name == RECORD for entry in entries):
            yield folder
            if folder != root:
                continue
        pending_folders += [path for path in reversed(subfolders) if not path.name.startswith(".")]


def read_rows(root: Path) -> tuple[list[RunRow], list[str]]:
    """Read the runs in a folder.

    Returns
    -------
    rows : of each run, newest first
    unreadable : a line for each whose ``run.json`` is damaged, and for folders without access

    Raises
    ------
    pipelines.errors.InputError
        There is no such folder.
    """
    if not root.is_dir():
        raise InputError(
            f"DIR must be a folder that exists, got {str(root)!r}: name the one that holds your "
            "runs"
        )
    rows: list[RunRow] = []
    unreadable: list[str] = []
    for folder in find_runs(root, unreadable):
        name = folder.name or str(folder) if folder == root else str(folder.relative_to(root))
        try:
            metadata, record = read_record(folder, Record)
            rows.append(run_row(name, folder, metadata, record))
        except InputError as error:
            unreadable.append(re.sub("^RUN must .*?, got |: [^:]*$", "", str(error)))
        except DAMAGE as error:  # in fields of commands, which the schema of all runs has not
            unreadable.append(f"{str(folder / RECORD)!r}, which is damaged ({one_line(error)})")
    return sorted(rows, key=lambda row: row.started, reverse=True), unreadable


def shortened_list(lines: Sequence[str]) -> list[str]:
    """Give lines on what was left out; of many the first, and how many more there are."""
    n_more = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], *([f"{n_more:,} more"] if n_more > 0 else [])]


def score_columns(
    rows: Sequence[RunRow], are_spread: bool = False
) -> tuple[dict[str, list[float]], dict[str, Callable[[float], str]]]:
    """Give columns of scores, one of cross-validation and one of the test for each measure.

    Returns
    -------
    columns : by their heads, such as ``cv error`` and ``test r2``, NaN where a run has none; with
        ``are_spread`` also of the standard deviations over the folds
    formats : how a number of each is read
    """
    columns: dict[str, list[float]] = {}
    formats: dict[str, Callable[[float], str]] = {}
    for name in dict.fromkeys(["error", *(row.measure for row in rows if row.measure)]):
        measure = Measure(name, is_error=name == "error", is_loss=True)
        cv, test = ("cv_error", "test_error") if measure.is_error else ("cv_score", "test_score")
        rows_of_measure = [row if row.measure == name else None for row in rows]
        values = {f"cv {name}": [getattr(row, cv, None) for row in rows_of_measure]}
        if are_spread:
            values[f"standard deviation of cv {name}"] = [
                getattr(row, "cv_std", None) for row in rows_of_measure
            ]
        # An error on the test samples has who was chosen by another score, too.
        values[f"test {name}"] = [
            getattr(row, test, None) for row in (rows if measure.is_error else rows_of_measure)
        ]
        for head, column in values.items():
            if any(value is not None for value in column):
                columns[head] = [math.nan if value is None else value for value in column]
                formats[head] = measure.text
    return columns, formats


@dataclass(frozen=True)
class Condition:
    """A column, a comparison and a value: ``test_error < 0.02``.

    Values of text may have ``*`` and ``?``, as names of files; case and the sign between words,
    ``svm-grid`` or ``svm_grid``, say nothing. Of a time the beginning is compared, as far as the
    value goes: ``started >= 2026-11``. A run without a value meets no condition.
    """

    column: str
    comparison: str
    value: str | float

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Read a condition, which runs no code.

        Raises
        ------
        pipelines.errors.InputError
            It is none, its column is unknown, or its value is not of the column's kind.
        """
        parts = _EXPRESSION.fullmatch(text)
        if parts is None:
            way_out = "put DIR first" if os.path.isdir(text) else "mind the quotes"
            raise InputError(
                f"{opt('where')} must be a column, a comparison ({' '.join(_COMPARISONS)}) and a "
                f"value, such as {EXAMPLE}, got {text!r}; {way_out}"
            )
        name, comparison, value = parts.groups()
        column, value = column_named(name, "where"), value.strip("\"'")
        kind, comparison = COLUMNS[column], "==" if comparison == "=" else comparison
        if _SEVERAL.search(value):
            raise InputError(
                f"{opt('where')} must be one condition, got {text!r}; for another add another "
                f"{opt('where')}"
            )
        if kind == TEXT and comparison not in ("==", "!="):
            raise InputError(
                f"{opt('where')} must compare {column}, which is text, by == or !=, got {text!r}"
            )
        if kind == TIME and not _DATE.fullmatch(value):
            raise InputError(
                f"{opt('where')} must compare {column} with a time in UTC such as 2026-11-20 or "
                f"2026-11-20 13:08, got {value!r}"
            )
        number = _number(value, column) if kind == NUMBER else None
        if kind == NUMBER and number is None:
            units = ", perhaps in %" if column.endswith("_error") else ""
            units = ", perhaps in min, h or d" if column == "seconds" else units
            raise InputError(
                f"{opt('where')} must compare {column} with a number{units}, got {value!r}; as in "
                f'"{column} < {0.02 if "_" in column else 60}"'
            )
        return cls(column, comparison, value if number is None else number)

    def holds(self, row: RunRow) -> bool:
        """Whether a run meets it."""
        value: Any = getattr(row, self.column)
        if value is None or value == "":
            return False
        if isinstance(self.value, float):
            return bool(_COMPARISONS[self.comparison](value, self.value))
        if COLUMNS[self.column] == TIME:
            other = self.value.replace(" ", "T")
            return bool(_COMPARISONS[self.comparison](value[: len(other)], other))
        return fnmatchcase(_plain(value), _plain(self.value)) == (self.comparison == "==")


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
    "==": eq,
    "!=": ne,
}
_EXPRESSION = re.compile(r"\s*([A-Za-z][\w -]*?)\s*(<=|>=|==|!=|=|<|>)\s*(\S.*?)\s*", re.DOTALL)
_DATE = re.compile(r"\d{4}(-\d\d(-\d\d([T ]\d\d(:\d\d(:\d\d)?)?)?)?)?")
_SEVERAL = re.compile(r"\s(and|or)\s|&|\|", re.IGNORECASE)
_UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def _number(text: str, column: str) -> float | None:
    """Read a number; fractions may be in percent, and times in minutes, hours or days."""
    parts = re.fullmatch(r"([-+.\deE]+)\s*(\S*)", text)
    try:
        number = float(parts[1]) if parts else math.nan
    except ValueError:
        return None
    unit = parts[2] if parts else ""
    if unit == "%" and column.endswith("_error"):
        number /= 100
    elif unit in _UNITS and column == "seconds":
        number *= _UNITS[unit]
    elif unit:
        return None
    return number if math.isfinite(number) else None


def _plain(text: str) -> str:
    return text.casefold().replace("_", "-")


def column_named(name: str, option: str) -> str:
    """Find a column by its name, or by its head in the table.

    Raises
    ------
    pipelines.errors.InputError
        There is none; the message names the near one, or all.
    """
    column = re.sub(r"[\s-]+", "_", name.strip().lower())
    column = {"time": "seconds", "run": "name"}.get(column, column)  # heads of the table
    if column not in COLUMNS:
        way_out = nearest(column, COLUMNS, f"choose one of {', '.join(COLUMNS)}")
        if longer_names := [name for name in COLUMNS if name.startswith(f"{column}_")]:
            way_out = f"did you mean {' or '.join(longer_names)}?"
        raise InputError(f"{opt(option)} must name a column of runs, got {name!r}; {way_out}")
    return column


def select_runs(
    rows: Sequence[RunRow], conditions: Sequence[Condition], sort: str | None, is_reversed: bool
) -> list[RunRow]:
    """Give the runs that meet all conditions, in order: what has no value comes last."""
    matching_rows = [row for row in rows if all(condition.holds(row) for condition in conditions)]
    if sort is None:
        return matching_rows[::-1] if is_reversed else matching_rows

    def value(row: RunRow) -> Any:
        cell_value = getattr(row, sort)
        return cell_value.casefold() if isinstance(cell_value, str) else cell_value

    rows_with_value = [row for row in matching_rows if value(row) not in (None, "")]
    rows_without_value = [row for row in matching_rows if value(row) in (None, "")]
    return [*sorted(rows_with_value, key=value, reverse=is_reversed), *rows_without_value]


def list_runs(
    folder: str | Path = "results",
    where: str | Sequence[str] = (),
    sort: str | None = None,
    reverse: bool = False,
) -> pd.DataFrame:
    """Build a table of the runs in a folder, from their ``run.json`` alone.

    Parameters
    ----------
    folder : that holds run folders at any depth, or is one
    where : conditions that all hold, such as ``"test_error < 0.02"``, ``"command == svm-grid"``,
        ``"seconds < 10 min"``, ``"name == svm_*"``; a run without a value meets none of it
    sort : column to sort by, the smallest first; by default the newest run is first
    reverse : turn the order round

    Returns
    -------
    table with a row for each run and the columns ``name``, ``started`` (UTC), ``command``,
    ``data``, ``n_train``, ``best``, ``measure``, ``cv_error``, ``cv_score``, ``cv_std``,
    ``test_error``, ``test_score``, ``status``, ``seconds``, ``workers``, ``folder``. Errors are
    fractions; scores are of ``measure``, where that is another than the error

    Raises
    ------
    pipelines.errors.InputError
        ``folder`` is none or cannot be read, or ``where`` or ``sort`` name no column.

    Warns
    -----
    UserWarning
        A run whose ``run.json`` is damaged is left out.
    """
    import warnings

    import pandas as pd

    texts = [where] if isinstance(where, str) else where
    conditions = [Condition.parse(text) for text in texts]
    column = None if sort is None else column_named(sort, "sort")
    rows, unreadable = read_rows(Path(folder))
    for line in unreadable:
        warnings.warn(f"left out: {line}", UserWarning, stacklevel=2)
    table = pd.DataFrame(
        [asdict(row) for row in select_runs(rows, conditions, column, reverse)],
        columns=list(COLUMNS),
    )
    of_numbers = {name: float for name, kind in COLUMNS.items() if kind == NUMBER}
    counts = dict.fromkeys(("n_train", "workers"), "Int64")
    return table.astype({**of_numbers, **counts})
