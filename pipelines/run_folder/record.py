"""``run.json``: the schema that runs of all commands share, and its reading."""

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
    """The columns of a table, by kind, as models were trained on them."""

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
    # (height, width) of grey images, (channels, height, width) of coloured ones.
    image_shape: tuple[Side, Side] | tuple[Side, Side, Side] | None = None
    scaling: dict[str, Any] | None = None
    fingerprint: str | None = None
    table: TableMetadata | None = None
    notes: list[str] = []

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the features of a table, in the order that models take."""
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
    """A worker of a run; memory is in bytes; peaks are the most in use during a task."""

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
    worker : str
        Its address.
    time, seconds : float
        When the replacement began, in seconds since the epoch, and how long it took.
    n_tasks : int
        Tasks that the process had finished.
    memory : (int, int) or None
        Bytes that it held after its tenth task and after its last; None if it was replaced for
        another reason.
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
    """The cells that have the same status, other than ``ok``."""

    status: str = "failed"
    count: Count = 0
    cells: list[dict[str, Number | str]] = []


class OptionMetadata(RecordPart):
    """The options of a run as they are; the options that pages read have a type."""

    __pydantic_extra__: dict[str, Scalar | list[Scalar]] = Field(init=False)

    folds: Count | None = None
    seed: Count | None = None
    solver: str | None = None
    scoring: str | list[str] | None = None
    cv: str | None = None
    repeats: Count | None = None


class BestMetadata(RecordPart):
    """The best candidate, by the mean over its folds; a command adds the fields that identify it.

    ``n_splits`` is set if time ran out before any candidate had all splits; ``share``, a fraction
    of the rows, if it ran out before any candidate was tried on all rows.
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
    """What decides results besides data and options: SHA-256 of files and code, and versions."""

    inputs: dict[str, dict[str, str]]
    versions: dict[str, str]


class AcceptedMetadata(RecordPart):
    """Changes that a session accepted: for each, the former and the new value."""

    time: str
    run: str
    changed: dict[str, Annotated[list[str], Field(min_length=2, max_length=2)]]


class TrackerMetadata(RecordPart):
    """Where a run is logged besides its folder.

    Attributes
    ----------
    state : dict
        What the logger continues from; ``where`` says where that is.
    n_records : int
        Number of records of the journal that it has.
    is_whole : bool
        Whether it has the end of the finished run.
    """

    state: dict[str, Scalar] = {}
    n_records: Count = 0
    is_whole: bool = False


class Answer(RecordPart):
    """The results of a run, shown at its end, and again when it is resumed.

    A command with further results has a class of its own; a run that is not finished has none of
    them.

    Attributes
    ----------
    needed : tuple of str
        Fields that ``run.json`` of a finished run must have.
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
        """An answer, validated as ``run.json`` is when it is read again.

        Raises
        ------
        ValidationError
            An entry is invalid, for example a non-finite number.
        """
        return cls.model_validate_json(json.dumps(entries))

    @property
    def entries(self) -> dict[str, Any]:
        """The entries for ``run.json``."""
        return self.model_dump(mode="json", exclude_unset=True)


class Record(Answer):
    """The fields of ``run.json`` that are read again; a missing field is not known yet.

    Each command has a class of its own, which combines this class and the class of its answer.
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
    n_splits: Count | None = None  # per candidate
    image_form: ImageForm | None = None  # None for a table
    ratio: Positive | None = None  # validation rows per training row
    files: dict[FileName, FileDigest] = {}  # as the run left them, by their paths in the folder

    @property
    def answered(self) -> tuple[str, ...]:
        """The results that ``run.json`` of this run must have once it is finished."""
        return self.needed

    def missing(self) -> list[str]:
        """The fields that a run with this status must have but lacks."""
        if "status" not in self.model_fields_set or self.status != "finished":
            return []
        names = ("wall_seconds", "n_cells", *self.answered)
        return [name for name in names if attrgetter(name)(self) is None]


AnyRecord = TypeVar("AnyRecord", bound=Record)


def n_splits_of(metadata: Mapping[str, Any]) -> int | None:
    """The number of splits per candidate, from ``run.json``; None without folds.

    For runs older than this entry, it follows from the options for folds and repeats.
    """
    options = metadata.get("options", {})
    folds: int | None = options.get("folds")
    if folds and options.get("cv") == "repeated":
        folds *= options["repeats"]
    return metadata.get("n_splits", folds)


def splits_in_words(metadata: Mapping[str, Any]) -> str:
    """``5 folds``, or ``15 splits`` if a candidate has more splits than there are folds."""
    n_splits = n_splits_of(metadata)
    what = "fold" if n_splits == metadata.get("options", {}).get("folds") else "split"
    return f"{n_splits} {what}{'s' * (n_splits != 1)}"


def recycled_in_words(metadata: Mapping[str, Any]) -> str:
    """How many worker processes were replaced, and why; empty if none was."""
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
    """The smallest and the largest number, in words."""
    first, last = min(numbers), max(numbers)
    return f"{first:,}" if first == last else f"{first:,} to {last:,}"


def splits_of_best_in_words(metadata: Mapping[str, Any]) -> str:
    """Splits of the best: ``5 folds``, ``2 of 5 folds``, ``5 folds of 33 % of the rows``."""
    best, words = metadata.get("best") or {}, splits_in_words(metadata)
    if (n_splits := best.get("n_splits")) is not None:
        words = f"{n_splits} of {words}"
    if (fraction := best.get("share")) is not None:
        words += f" of {100 * fraction:.3g} % of the rows"
    return words


def read_record(
    folder: Path, record_class: type[AnyRecord], argument: str = "RUN"
) -> tuple[dict[str, Any], AnyRecord]:
    """Read ``run.json`` as it is, and validated.

    Parameters
    ----------
    folder : Path
    record_class : type of Record
        Schema of the file: the class of a command, or ``Record`` for what all runs have.
    argument : str
        What the caller calls the folder, for messages.

    Returns
    -------
    metadata : dict
    record : Record

    Raises
    ------
    InputError
        There is no such file, or it is damaged.
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
