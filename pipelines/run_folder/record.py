"""``run.json``: the schema of what runs of all commands have, and its reading."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import Field, ValidationError
from pydantic_core import from_json

from pipelines.errors import InputError
from pipelines.run_folder.digests import FileDigest, FileName
from pipelines.run_folder.names import RECORD
from pipelines.run_folder.schema import (
    MOST_CLASSES,
    Count,
    Fraction,
    Number,
    Positive,
    RecordPart,
    Scalar,
    Seconds,
    Side,
    one_line,
)

WAY_OUT = "name a folder that a command wrote with --results"


class TableMetadata(RecordPart):
    """Columns of a table by kind, as they were learned from."""

    target: str
    missing: str = "impute"
    without_header: bool = False
    missing_values: list[str] = []
    units: dict[str, str] = {}
    levels: dict[str, list[str]] = {}
    numbers: list[str]
    categories: list[str]
    left_out: list[list[str]] = []


class DatasetMetadata(RecordPart):
    """The data of a run."""

    name: str | None = None
    task: str | None = None
    n_train: Count | None = None
    n_test: Count | None = None
    n_features: Count | None = None
    n_classes: Count | None = None
    classes: list[str] = Field(default=[], max_length=MOST_CLASSES)
    # Height and width, of coloured images their channels before them.
    image_shape: tuple[Side, Side] | tuple[Side, Side, Side] | None = None
    scaling: dict[str, Any] | None = None
    fingerprint: str | None = None
    table: TableMetadata | None = None
    notes: list[str] = []

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the features of a table, in the order in which models take them."""
        table = self.table
        return () if table is None else (*table.numbers, *table.categories)


class ImageForm(RecordPart):
    """The form of the images of a data set, as ``ImageFormat`` describes it."""

    height: Side
    width: Side
    brightest: Positive
    ink_side: Side | None
    channels: Literal[1, 3] = 1
    strokes: tuple[Positive, Positive] | None = None
    white: dict[str, Positive] = {}


class WorkerMetadata(RecordPart):
    """A worker of a run; memory in bytes, the most in use during a task."""

    address: str
    host: str | None = None
    gpu: str | None = None
    gpu_memory: Count | None = None
    peak_memory: Count | None = None
    peak_gpu_memory: Count | None = None


class RecycledMetadata(RecordPart):
    """A worker process that was replaced.

    Attributes
    ----------
    time, seconds : when that was begun, in seconds since the epoch, and how long it took
    n_tasks : those that the process had finished
    memory : bytes that it held after its tenth task and after its last; None where it was not
        replaced for that
    """

    worker: str
    time: Number
    seconds: Seconds
    n_tasks: Count
    memory: tuple[Count, Count] | None = None


class ClusterMetadata(RecordPart):
    """The cluster on which a run was carried out."""

    kind: str = "cluster"
    n_workers: Count | None = None
    workers: list[WorkerMetadata] = []


class Failure(RecordPart):
    """The cells that share a status other than ``ok``."""

    status: str = "failed"
    count: Count = 0
    cells: list[dict[str, Number | str]] = []


class OptionMetadata(RecordPart):
    """The options of a run, as they are; those that a page asks for have a type."""

    __pydantic_extra__: dict[str, Scalar | list[Scalar]] = Field(init=False)

    folds: Count | None = None
    seed: Count | None = None
    solver: str | None = None
    scoring: str | list[str] | None = None
    cv: str | None = None
    repeats: Count | None = None


class BestMetadata(RecordPart):
    """The best candidate, by the mean over its folds; what tells it from others is a command's.

    ``n_splits`` is there where time ended before any candidate had all splits, and ``fraction``
    where it ended before any was tried on all rows.
    """

    n_splits: Count | None = None
    share: Fraction | None = None
    error_mean: Fraction | None = None
    error_std: Number | None = None
    score_mean: Number | None = None
    score_std: Number | None = None


class NestedMetadata(RecordPart):
    """The estimate of a nested cross-validation."""

    score_mean: Number
    score_std: Number
    n_outer: Count


class BaselineMetadata(RecordPart):
    """An estimator that always gives the same answer, which a result should beat."""

    words: str = ""
    scoring: str | None = None
    score_mean: Number | None = None
    test_error: Fraction | None = None
    test_metric: Number | None = None


class IdentityMetadata(RecordPart):
    """What decides results besides data and options: SHA-256 of files and code, versions."""

    inputs: dict[str, dict[str, str]]
    versions: dict[str, str]


class AcceptedMetadata(RecordPart):
    """Changes that a session went on with: of each what it was, and what it is."""

    time: str
    run: str
    changed: dict[str, Annotated[list[str], Field(min_length=2, max_length=2)]]


class TrackerMetadata(RecordPart):
    """Where a run is logged beside its folder.

    Attributes
    ----------
    state : what the logger goes on by, and ``where`` that is
    n_records : of the journal, which it has
    is_whole : whether it has the end of the finished run
    """

    state: dict[str, Scalar] = {}
    n_records: Count = 0
    is_whole: bool = False


class Answer(RecordPart):
    """What a run answers: what it has said at its end, and says again when it is resumed.

    A command whose answer has more fields has a class of its own; a run that is not finished has
    none of them.

    Attributes
    ----------
    needed : what ``run.json`` of a finished run must have
    """

    needed: ClassVar[tuple[str, ...]] = ()

    n_cells: Count | None = None
    n_failed: Count = 0
    failures: list[Failure] = []
    best: BestMetadata | None = None
    nested: NestedMetadata | None = None
    test_error: Fraction | None = None
    n_test_errors: Count | None = None
    test_scores: dict[str, Number | None] = {}
    test_log_loss: Number | None = None
    test_calibration_error: Number | None = None
    baseline: BaselineMetadata | None = None
    remarks: list[str] = []

    @classmethod
    def of(cls, entries: Mapping[str, Any]) -> Self:
        """Return an answer, checked as ``run.json`` is when it is read again.

        Raises
        ------
        ValidationError
            An entry breaks its rule, such as a number that is not finite.
        """
        return cls.model_validate_json(json.dumps(entries))

    @property
    def entries(self) -> dict[str, Any]:
        """The entries for ``run.json``."""
        return self.model_dump(mode="json", exclude_unset=True)


class Record(Answer):
    """The fields of ``run.json`` that are read again; a missing one is not known yet.

    A command has a class of its own, of this and its answer.
    """

    command: str
    argv: list[str] = []
    status: str = "finished"
    reason: str | None = None
    started: str | None = None
    finished: str | None = None
    session_began: Number | None = None
    wall_seconds: Seconds | None = None
    busy_share: Number | None = None
    compile_seconds: Seconds | None = None
    seed: Count | None = None
    fingerprint: str | None = None
    solver: str | None = None
    commit: str | None = None
    identity: IdentityMetadata | None = None
    accepted: list[AcceptedMetadata] = []
    options: OptionMetadata = OptionMetadata()
    dataset: DatasetMetadata = DatasetMetadata()
    cluster: ClusterMetadata = ClusterMetadata()
    recycled: list[RecycledMetadata] = []
    trackers: dict[str, TrackerMetadata] = {}
    versions: dict[str, Scalar] = {}
    machine: dict[str, Scalar] = {}
    n_splits: Count | None = None  # of each candidate
    image_form: ImageForm | None = None  # None of a table
    ratio: Positive | None = None  # validation rows for each training row
    files: dict[FileName, FileDigest] = {}  # as the run left them, by their paths in the folder

    @property
    def answered(self) -> tuple[str, ...]:
        """What ``run.json`` of this run must have once it is finished."""
        return self.needed

    def missing(self) -> list[str]:
        """Return the fields that a run with this status must have, and has not."""
        if "status" not in self.model_fields_set or self.status != "finished":
            return []
        names = ("wall_seconds", "n_cells", *self.answered)
        return [name for name in names if attrgetter(name)(self) is None]


AnyRecord = TypeVar("AnyRecord", bound=Record)


def n_splits_of(metadata: Mapping[str, Any]) -> int | None:
    """Return the splits that each candidate has, by ``run.json``; None of what has no folds.

    Runs begun before they were counted say the folds and repeats that were asked for.
    """
    options = metadata.get("options", {})
    folds: int | None = options.get("folds")
    if folds and options.get("cv") == "repeated":
        folds *= options["repeats"]
    return metadata.get("n_splits", folds)


def splits_in_words(metadata: Mapping[str, Any]) -> str:
    """Return ``5 folds``, or ``15 splits`` where each candidate has others than the folds."""
    n_splits = n_splits_of(metadata)
    what = "fold" if n_splits == metadata.get("options", {}).get("folds") else "split"
    return f"{n_splits} {what}{'s' * (n_splits != 1)}"


def recycled_in_words(metadata: Mapping[str, Any]) -> str:
    """How many worker processes were replaced, and why; empty where none was."""
    recycled = metadata.get("recycled") or ()
    if not recycled:
        return ""
    numbers = [process["n_tasks"] for process in recycled]
    words = f"{len(recycled):,} worker process{'es' * (len(recycled) != 1)} after "
    words += f"{_range(numbers)} task{'s' * (max(numbers) != 1)}" + " each" * (len(recycled) != 1)
    memory_pairs = [
        memory for process in recycled if (memory := process.get("memory")) and memory[0]
    ]
    if growth := [round(100 * (after / before - 1)) for before, after in memory_pairs]:
        words += f": the memory held had grown by {_range(growth)} %"
    return words


def _range(numbers: Sequence[int]) -> str:
    first, last = min(numbers), max(numbers)
    return f"{first:,}" if first == last else f"{first:,} to {last:,}"


def splits_of_best_in_words(metadata: Mapping[str, Any]) -> str:
    """The splits of the best: ``5 folds``, ``2 of 5 folds``, ``5 folds of 33 % of the rows``."""
    best, words = metadata.get("best") or {}, splits_in_words(metadata)
    if (n_splits := best.get("n_splits")) is not None:
        words = f"{n_splits} of {words}"
    if (fraction := best.get("share")) is not None:
        words += f" of {100 * fraction:.3g} % of the rows"
    return words


def read_record(
    folder: Path, record_class: type[AnyRecord], argument: str = "RUN"
) -> tuple[dict[str, Any], AnyRecord]:
    """Return ``run.json`` as it stands, and held against its schema.

    Parameters
    ----------
    folder : Path
    kind : its schema, a command's own or that of what all runs have
    argument : what the caller named the folder with, for the message
    """
    path = folder / RECORD
    if not path.is_file():
        problem = f"with a {RECORD}" if folder.is_dir() else "that exists"
        raise InputError(
            f"{argument} must be a run folder {problem}, got {str(folder)!r}: {WAY_OUT}"
        )
    try:
        metadata = from_json(content := path.read_bytes())
        if not isinstance(metadata, dict):
            raise ValueError(f"it holds a {type(metadata).__name__}, not one object")
        return metadata, record_class.model_validate_json(content)
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
