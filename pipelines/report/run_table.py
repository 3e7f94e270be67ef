"""A table of the runs in a folder, from their ``run.json`` alone, and conditions that filter it.

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

EMPTY = "–"  # shown for a missing value
MOST_LINES = 10  # on runs that cannot be read
LONGEST = 60  # characters for the best candidate
EXAMPLE = '"test_error < 0.02"'
TIME, TEXT, NUMBER = "a time", "text", "a number"


@dataclass(frozen=True)
class RunRow:
    """A run as a row of the table of runs. The fields are the columns, in their order.

    Attributes
    ----------
    name : str
        Path of the run folder below the folder that was searched.
    started : str
        In UTC, as ``2026-11-20T13:08:49``.
    command : str
        As it is typed: ``svm-grid``.
    data : str
        Name of the data set.
    n_train : int or None
        Number of training samples.
    best : str
        The best candidate, in few words.
    measure : str
        What the scores measure: ``error``, ``r2``, ``mean absolute error``.
    cv_error, test_error : float or None
        Classification errors as fractions; None for scores of another measure.
    cv_score, test_score : float or None
        Scores in a measure other than the error.
    cv_std : float or None
        Standard deviation of ``cv_error`` or ``cv_score`` over the folds.
    status : str
        ``finished``, ``running``, ``stopped`` or ``failed``.
    seconds : float or None
        Wall time.
    workers : int or None
        Number of workers.
    folder : str
        Path of the run folder.
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
    """The row of a run in the table of runs.

    Parameters
    ----------
    name : str
        Name of the run in the table.
    folder : Path
        Its run folder.
    metadata, record
        Its ``run.json`` as it stands, and with its types.

    Returns
    -------
    RunRow
    """
    measure, best = measure_of_run(metadata, record), record.best
    std = None if best is None else best.error_std if measure.is_error else best.score_std
    score = None if best is None or best.score_mean is None else measure.of(best.score_mean)
    if measure.is_error and best is not None and best.error_mean is not None:
        score = best.error_mean  # not rounded; all that older runs have
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
    """Name of the scorer that chose the best candidate; None for the accuracy, or if unknown.

    A search with several scorers chooses by the first. If the user named none, the scorer is in
    ``scoring`` of ``run.json``, or in its baseline.
    """
    for scoring in (metadata.get("scoring"), record.options.scoring):
        if scoring:
            return scoring if isinstance(scoring, str) else str(scoring[0])
    return record.baseline.scoring if record.baseline is not None else None


def measure_of_run(metadata: Mapping[str, Any], record: Record) -> Measure:
    """What the scores of a run measure."""
    if isinstance(metric := metadata.get("metric"), str):  # a command that only trains
        return Measure(metric, is_error=metric == "error", is_loss=True)
    return measure_of(run_scoring(metadata, record))


def best_in_words(metadata: Mapping[str, Any], record: Record) -> str:
    """The best candidate of a run in few words, or the node of the highest rank; may be empty."""
    if record.best is None:
        if top := metadata.get("top"):
            return f"node {top[0]['node']}"
        n_members = metadata.get("options", {}).get("n_bootstrap")
        return f"{n_members} members" if n_members and record.test_error is not None else ""
    values = dict(record.best.model_extra or {})
    algorithm, parameters = values.pop("algorithm", None), values.pop("parameters", {})
    if algorithm is not None:
        values = dict(parameters)  # its number tells a reader nothing
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
    """Find the run folders in a folder, at any depth.

    Below ``root``, a run folder is not searched for further runs, and hidden folders are left out.
    Links are followed; a folder that several of them lead to is searched once.

    Parameters
    ----------
    root : Path
    unreadable : list of str
        A line is added for each folder that cannot be read.

    Yields
    ------
    Path
        A run folder.
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
        # Links may lead in a circle, so folders are known by their inode and not by their path.
        if (status.st_dev, status.st_ino) in seen_folders:
            continue
        seen_folders.add((status.st_dev, status.st_ino))
        if any(entry.name == RECORD for entry in entries):
            yield folder
            if folder != root:
                continue
        pending_folders += [path for path in reversed(subfolders) if not path.name.startswith(".")]


def read_rows(root: Path) -> tuple[list[RunRow], list[str]]:
    """Read the runs in a folder, at any depth.

    Parameters
    ----------
    root : Path

    Returns
    -------
    rows : list of RunRow
        The newest run first.
    unreadable : list of str
        A line for each run whose ``run.json`` is damaged and each folder that cannot be read.

    Raises
    ------
    pipelines.errors.InputError
        ``root`` is not a folder.
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
        except DAMAGE as error:  # in a field that only its command has
            unreadable.append(f"{str(folder / RECORD)!r}, which is damaged ({one_line(error)})")
    return sorted(rows, key=lambda row: row.started, reverse=True), unreadable


def shortened_list(lines: Sequence[str]) -> list[str]:
    """The first ``MOST_LINES`` lines; if there are more, a last line counts those left out."""
    n_more = len(lines) - MOST_LINES
    return [*lines[:MOST_LINES], *([f"{n_more:,} more"] if n_more > 0 else [])]


def score_columns(
    rows: Sequence[RunRow], are_spread: bool = False
) -> tuple[dict[str, list[float]], dict[str, Callable[[float], str]]]:
    """Columns of scores for each measure: cross-validated and on the test samples.

    Parameters
    ----------
    rows : sequence of RunRow
    are_spread : bool, default False
        Whether standard deviations over the folds also have columns.

    Returns
    -------
    columns : dict of str to list of float
        By heading, such as ``cv error`` and ``test r2``; NaN where a run has no such score.
        Columns without any score are left out.
    formats : dict of str to callable
        How numbers of each column are written.
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
        # A run that chose by another score also has an error on the test samples.
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
    """A condition on runs: a column, a comparison and a value, as in ``test_error < 0.02``.

    Text is matched with ``*`` and ``?`` as in file names, without regard to case, and with hyphens
    equal to underscores: ``svm-grid`` is ``svm_grid``. Times are compared as far as the value goes:
    ``started >= 2026-11``. A run without a value in the column never meets the condition.

    Attributes
    ----------
    column : str
        A field of ``RunRow``.
    comparison : str
        ``<``, ``<=``, ``>``, ``>=``, ``==`` or ``!=``.
    value : str or float
    """

    column: str
    comparison: str
    value: str | float

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Parse a condition such as ``"test_error < 2 %"``. The text is never evaluated as code.

        Raises
        ------
        pipelines.errors.InputError
            The text is not a condition, its column is unknown, or its value does not fit the
            column.
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
        """Whether a run meets the condition."""
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
    """Read a number; None if it is not one. Errors may be in percent, times in min, h or d."""
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
    """The column of ``RunRow`` with a name, or with a heading of the printed table.

    Parameters
    ----------
    name : str
    option : str
        The option that named the column, for the error message.

    Raises
    ------
    pipelines.errors.InputError
        There is no such column; the message suggests a similar name, or lists all.
    """
    column = re.sub(r"[\s-]+", "_", name.strip().lower())
    column = {"time": "seconds", "run": "name"}.get(column, column)  # headings of the table
    if column not in COLUMNS:
        way_out = nearest(column, COLUMNS, f"choose one of {', '.join(COLUMNS)}")
        if longer_names := [name for name in COLUMNS if name.startswith(f"{column}_")]:
            way_out = f"did you mean {' or '.join(longer_names)}?"
        raise InputError(f"{opt(option)} must name a column of runs, got {name!r}; {way_out}")
    return column


def select_runs(
    rows: Sequence[RunRow], conditions: Sequence[Condition], sort: str | None, is_reversed: bool
) -> list[RunRow]:
    """Filter and sort runs.

    Parameters
    ----------
    rows : sequence of RunRow
    conditions : sequence of Condition
        A run has to meet all of them.
    sort : str or None
        Column to sort by, the smallest value first; runs without a value come last. None keeps the
        order of ``rows``.
    is_reversed : bool
        Whether the order is reversed.

    Returns
    -------
    list of RunRow
    """
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
    """List the runs in a folder, from their ``run.json`` alone.

    Parameters
    ----------
    folder : path, default "results"
        Folder that holds run folders, at any depth, or a run folder.
    where : str or sequence of str, default ()
        Conditions that a run has to meet, such as ``"test_error < 0.02"``,
        ``"command == svm-grid"``, ``"seconds < 10 min"`` or ``"name == svm_*"``. A run without a
        value in the column does not meet a condition.
    sort : str, optional
        Column to sort by, the smallest value first; by default the newest run is first.
    reverse : bool, default False
        Reverse the order.

    Returns
    -------
    pandas.DataFrame
        A row for each run, with the columns ``name``, ``started`` (UTC), ``command``, ``data``,
        ``n_train``, ``best``, ``measure``, ``cv_error``, ``cv_score``, ``cv_std``, ``test_error``,
        ``test_score``, ``status``, ``seconds``, ``workers`` and ``folder``. Errors are fractions.
        Scores are in ``measure``, where that is not the error.

    Raises
    ------
    pipelines.errors.InputError
        ``folder`` is not a folder, or ``where`` or ``sort`` names no column.

    Warns
    -----
    UserWarning
        A run whose ``run.json`` is damaged, or a folder that cannot be read, is left out.

    Examples
    --------
    >>> import json, tempfile
    >>> from pathlib import Path
    >>> from pipelines import list_runs
    >>> root = Path(tempfile.mkdtemp())
    >>> for name, error in (("first", 0.03), ("second", 0.01)):
    ...     (root / name).mkdir()
    ...     record = {"command": "svm_grid", "status": "finished", "test_error": error}
    ...     _ = (root / name / "run.json").write_text(json.dumps(record))
    >>> list_runs(root, sort="test_error")["name"].tolist()
    ['second', 'first']
    >>> list_runs(root, where="test_error < 2 %")["name"].tolist()
    ['second']
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
