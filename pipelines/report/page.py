"""The page of a run: one HTML file that needs no network and no other file."""

from __future__ import annotations

import math
import os
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2

from pipelines.report.classification import test_section
from pipelines.report.figures import draw_figures, of_any_run, worker_addresses
from pipelines.report.kind import Answer, Kind, Listing, Section, Text
from pipelines.report.table import MOST_ROWS, Cell, Table, Value, table_of
from pipelines.report.timeline import worker_name
from pipelines.report.wording import count, duration, percent, plain, scaling_in_words, timestamp
from pipelines.run_folder import names
from pipelines.run_folder.names import REPORT
from pipelines.run_folder.reading import Run, read_run
from pipelines.run_folder.record import Record, read_record
from pipelines.run_folder.work_time import busy_share, worker_timelines

MOST_FILES = 500
MOST_FAILED_CELLS = 50
WORTH_SAYING = 0.5  # seconds of compilation


def template(name: str) -> jinja2.Template:
    """Return a template that escapes what it is given and refuses what it is not."""
    return _environment().get_template(name)


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["thousands"] = lambda number: f"{number:,}"
    return environment


def write_page(folder: Path) -> Path:
    """Draw the figures of a run folder and write its page; return the page."""
    folder = Path(folder)
    kind = kind_of(read_record(folder)[1])
    run = kind.read(folder)
    name, figures = run.record.dataset.name, draw_figures(run, kind.figures)
    text = template(kind.template).render(
        title=(kind.title or run.record.command) + (f" on {name}" if name else ""),
        sentence=_sentence(kind, run),
        state=_state(kind, run),
        answers=kind.answers(run) + _answers(run),
        warnings=[*((_as_sentence(one), "") for one in run.record.remarks), *kind.warnings(run)],
        figures=figures,
        workers=_workers(run),
        answer=kind.answer(run),
        sections=[one for one in kind.sections(run) if one.is_shown(figures)],
        failures=_failures(kind, run),
        command=shlex.join(run.record.argv),
        metadata=_metadata(run),
        options=_pairs(run.metadata.get("options", {})),
        versions=_pairs(run.record.versions),
        files=file_table(folder),
        **kind.content(run),
    )
    page = folder / REPORT
    unfinished = folder / f"{REPORT}.part"
    unfinished.write_text(text, encoding="utf-8")
    os.replace(unfinished, page)
    return page


def _sentence(kind: Kind, run: Run[Any]) -> str:
    record = run.record
    dataset, cluster = record.dataset, record.cluster
    text = kind.size(run)
    if n_folds := run.n_folds:
        text += f", {n_folds}-fold cross-validation"
    if dataset.n_train is not None:
        text += f" on {count(dataset.n_train, 'training sample')}"
        details = []
        if dataset.n_features is not None:
            details.append(count(dataset.n_features, "feature"))
        if dataset.n_classes is not None:
            details.append(count(dataset.n_classes, "class", "classes"))
        text += f" ({', '.join(details)})" if details else ""
    if cluster.n_workers:
        text += f", {count(cluster.n_workers, 'worker')} ({cluster.kind})"
    if solver := record.solver or record.options.solver:
        text += f", solver {solver}"
    if record.started:
        text += f"; started {timestamp(record.started)}"
    return text + "."


def _state(kind: Kind, run: Run[Any]) -> str:
    """State why the page is incomplete; empty for a finished run."""
    status, reason = run.record.status, run.record.reason
    if status == "finished":
        return ""
    n_cells = run.record.n_cells
    if n_cells is None:  # None still, where the options do not say
        sizes = [getattr(run.record.options, name) for name in kind.sizes]
        n_cells = math.prod(sizes) if sizes and None not in sizes else None
    verb = {"running": "is still running", "stopped": "was stopped", "failed": "failed"}
    have = f"{len(run.cells):,} of {n_cells:,}" if n_cells else f"{len(run.cells):,}"
    return (
        f"This run {verb.get(status, 'is ' + status)}{f' ({reason})' if reason else ''}: "
        f"{have} cells are here. "
        "What is there is drawn; with --resume the command goes on from it."
    )


def _as_sentence(remark: str) -> str:
    return f"{remark[0].upper()}{remark[1:]}{'' if remark.endswith(('?', '.')) else '.'}"


def _answers(run: Run[Any]) -> list[Answer]:
    """Return the large figures that every run has."""
    answers, record = [], run.record
    if (baseline := record.baseline) is not None:
        if (error := baseline.test_error) is not None:
            answers.append(Answer("baseline", percent(error), f"test error of {baseline.words}"))
        elif baseline.score_mean is not None:
            note = f"cross-validated {baseline.scoring} of {baseline.words}"
            answers.append(Answer("baseline", f"{baseline.score_mean:.4f}", note))
        elif baseline.test_metric is not None:
            note = f"deviation of {baseline.words}, on test rows"
            answers.append(Answer("baseline", f"{baseline.test_metric:.4g}", note))
    if record.wall_seconds is not None:
        cells = "" if record.n_cells is None else f"for {count(record.n_cells, 'cell')}, "
        note = f"{cells}to the answer; imports and this page come on top"
        if record.compile_seconds and record.compile_seconds >= WORTH_SAYING:
            note += f"; {duration(record.compile_seconds)} of it is compiling, once"
        answers.append(Answer("wall time", duration(record.wall_seconds), note))
    share = busy_share(run.tasks, worker_addresses(run))
    if (share := record.busy_share if share is None else share) is not None:
        n_workers = record.cluster.n_workers
        of = "" if n_workers is None else f"of {count(n_workers, 'worker')}, "
        note = f"{of}from the first task to the end of the last"
        answers.append(Answer("busy share", f"{100 * share:.0f} %", note))
    return answers


def _workers(run: Run[Any]) -> Table:
    """Return worker, device, tasks, busy time and busy share."""
    devices = {
        worker.address: (worker.host or "", worker.gpu or "CPU")
        for worker in run.record.cluster.workers
    }
    rows: list[list[Value]] = []
    for timeline_row in worker_timelines(run.tasks, worker_addresses(run)):
        share = math.nan if timeline_row.busy_share is None else timeline_row.busy_share
        rows.append(
            [
                Cell(worker_name(timeline_row.worker), timeline_row.worker),
                *devices.get(timeline_row.worker, ("", "")),
                (len(timeline_row.tasks), f"{len(timeline_row.tasks):,}"),
                (timeline_row.busy_seconds, duration(timeline_row.busy_seconds)),
                (share, f"{100 * share:.0f} %"),
            ]
        )
    return Table.of(("worker", "host", "device", "tasks", "busy time", "busy share"), rows)


@dataclass(frozen=True)
class Failure:
    """The cells that share a status other than ``ok``."""

    status: str
    n_cells: int
    cells: list[str]


def _failures(kind: Kind, run: Run[Any]) -> list[Failure]:
    """List failures with their place, the most frequent first; from the table of cells if any."""
    place = list(kind.place)
    if not place:  # what tells one cell from another, of a command that does not say
        columns = list(run.cells.columns)
        place = columns[: columns.index("fold") + 1 if "fold" in columns else 1]

    def failure_of(status: str, n_cells: int, cells: Sequence[Any]) -> Failure:
        named = [kind.cell_name(cell) for cell in cells[:MOST_FAILED_CELLS]]
        return Failure(status, n_cells, named)

    if "status" in run.cells and len(run.cells):
        wrong = run.cells[run.cells["status"] != "ok"]
        found = [
            failure_of(str(status), len(group), group[place].to_dict("records"))
            for status, group in wrong.groupby("status", dropna=False)
        ]
    else:
        found = [
            failure_of(failure.status, failure.count or len(failure.cells), failure.cells)
            for failure in run.record.failures
        ]
    return sorted(found, key=lambda failure: (-failure.n_cells, failure.status))


def _metadata(run: Run[Any]) -> list[tuple[str, str]]:
    """List the metadata that a reproduction must share with this run."""
    record, dataset = run.record, run.record.dataset
    devices = Counter(
        f"{worker.gpu or 'CPU'} on {worker.host or 'an unknown host'}"
        for worker in record.cluster.workers
    )
    metadata = [
        ("Seed", record.seed),
        ("Data set", dataset.name),
        ("Data fingerprint", dataset.fingerprint),
        ("Scaling", scaling_in_words(dataset.scaling)),
        ("Test samples", dataset.n_test and f"{dataset.n_test:,}"),
        ("Devices", "; ".join(f"{number} × {name}" for name, number in devices.items())),
        ("Machine", ", ".join(f"{key} {value}" for key, value in record.machine.items())),
        ("Commit", record.commit),
        ("Started", record.started and timestamp(record.started)),
        ("Finished", record.finished and timestamp(record.finished)),
    ]
    return [(name, str(value)) for name, value in metadata if value not in (None, "")]


def _pairs(section: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(str(key), plain(value)) for key, value in section.items()]


CONTENT = {
    names.RECORD: "options, seed, versions, devices, times, the answer",
    names.JOURNAL: "every task as it was done, with its rows",
    names.CELLS: "a row for each cell",
    names.CANDIDATES: "means of every candidate, best first",
    names.PREDICTIONS: "the predictions of all test samples",
    names.WRONG: "the images of the wrong test samples",
    names.MODEL: "the best candidate, fitted on all training rows",
    names.PROBABILITIES: "calibrated probabilities of the test rows",
    names.MEMBERS: "the members and their errors",
    names.MEMBER_PROBABILITIES: "every member's probabilities of the test samples",
    names.SIZES: "errors of subsets of the members",
    names.EXPLAINED: "certainty of the members, of the samples that are drawn",
    names.RANKS: "the ranks of all nodes",
    names.ITERATIONS: "the change of every iteration",
    names.COMPARISON: "algorithms compared in pairs",
    names.LEARNING_CURVE: "scores on shares of the training rows",
    names.NESTED: "scores of the outer folds",
    names.RESIDUALS: "true and predicted numbers of the test rows",
    "performance.html": "Dask's own page of the run",
}


def file_table(folder: Path) -> Table:
    """Return name, size and content of each file, those with a content of their own first."""
    found = [
        path for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != names.REPORT and path.suffix != ".part"
    ]  # fmt: skip
    found.sort(key=lambda path: list(CONTENT).index(path.name) if path.name in CONTENT else 99)
    rows: list[list[Value]] = []
    for path in found[:MOST_FILES]:
        name, size = path.relative_to(folder).as_posix(), path.stat().st_size
        content = CONTENT.get(path.name, "a figure" if path.suffix in (".svg", ".png") else "")
        shown = f"{size:,} B" if size < 1000 else f"{size / 1000:,.1f} kB"
        rows.append([Cell(name, name, quote(name)), (size, shown), content])
    return Table.of(("file", "size", "content"), rows)


def _recorded_errors(run: Run[Any]) -> list[Answer]:
    """Return the errors that a run recorded."""
    best, answers = run.record.best, []
    if best is not None and best.error_mean is not None:
        answers.append(Answer("cv error", percent(best.error_mean), "mean over the folds"))
    if run.record.test_error is not None:
        answers.append(Answer("test error", percent(run.record.test_error)))
    return answers


def _sections(run: Run[Any]) -> list[Section]:
    """Return the test samples, and the tables as they are."""
    sections = [test_section(run)]
    for name, frame in (("Candidates", run.candidates), ("Cells", run.cells)):
        shown = "" if len(frame) <= MOST_ROWS else f"The first {MOST_ROWS:,} of "
        note = Text(f"{shown}{count(len(frame), 'row')}.")
        sections.append(Section(name.lower(), name, [note, Listing(name, table_of(frame))]))
    return sections


ANY = Kind(
    title="",
    read=read_run,
    figures=of_any_run(),
    size=lambda run: "A run",
    answers=_recorded_errors,
    sections=_sections,
)
# The file of each command's page and its name there: a run imports its own alone.
KINDS = {
    "svm_grid": ("svm_page", "SVM"), "nn_bagging": ("bagging_page", "BAGGING"),
    "pagerank": ("graph_page", "GRAPH"), "cross_validate": ("validation_page", "VALIDATION"),
    "data_parallel": ("training_page", "TRAINING"),
}  # fmt: skip


def kind_of(record: Record) -> Kind:
    """Return the kind of a run, by the command in its ``run.json`` and what it predicts."""
    if record.command not in KINDS:
        return ANY
    module, name = KINDS[record.command]
    if record.command == "svm_grid" and record.dataset.task == "regression":
        module, name = "svm_regression_page", "SVM_REGRESSION"
    kind: Kind = getattr(import_module(f"pipelines.report.{module}"), name)
    return kind
