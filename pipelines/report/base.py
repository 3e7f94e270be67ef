"""A run as its page shows it: what the pages of all commands say."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self
from urllib.parse import quote

import pandas as pd

from pipelines.errors import as_typed
from pipelines.report.classification import test_section
from pipelines.report.parts import (
    AS_GOOD,
    MOST_ROWS,
    Card,
    Cell,
    Chart,
    Command,
    Folded,
    Listing,
    Pairs,
    Part,
    Section,
    Table,
    Text,
    Value,
    cell,
    table_of,
)
from pipelines.report.timeline import timeline, worker_name
from pipelines.report.wording import (
    count,
    duration,
    percent,
    plain,
    scaling_in_words,
    timestamp,
    wrong_of,
)
from pipelines.run_folder import names
from pipelines.run_folder.measures import Measure, measure_of
from pipelines.run_folder.reading import AnyRecord, RunData, read_run
from pipelines.run_folder.record import BestMetadata
from pipelines.run_folder.statistics import WithinOneStandardError, scores
from pipelines.run_folder.work_time import busy_share, worker_timelines, workers_of

MOST_FILES = 500
MOST_FAILED_CELLS = 50
FEW_FAILURES = 5  # that are shown unfolded
WORTH_SAYING = 0.5  # seconds of compilation


@dataclass(frozen=True)
class Report(RunData[AnyRecord]):
    """A run and its page; a command has a subclass, one without it is drawn from its tables.

    Attributes
    ----------
    title : str, empty for the command's name
    place : names of the columns that tell one cell from another; by default those up to the fold
    sizes : names of the options whose product is the number of cells
    """

    title: ClassVar[str] = ""
    place: ClassVar[Sequence[str]] = ()
    sizes: ClassVar[Sequence[str]] = ()

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the folder of a run.

        Raises
        ------
        pipelines.errors.InputError
            It is no run folder, or a file in it is damaged.
        """
        return cls(**vars(read_run(folder)))

    # What a command may say itself.

    def size(self) -> str:
        """Say what was searched, the beginning of the line under the title."""
        return "A run"

    def conclusion(self) -> str:
        """Give the answer in a sentence; empty where there is none yet."""
        return self.answer_with("The best candidate")

    def cards(self) -> list[Card]:
        """Return the numbers that a reader acts on."""
        return self.score_cards()

    def warnings(self) -> list[tuple[str, str]]:
        """Return sentences of warning, each with a command that helps, or ""."""
        return []

    def sections(self) -> list[Section]:
        """Return what follows the cards, less what every page has at its end."""
        sections = [test_section(self)]
        for name, frame in (("Candidates", self.candidates), ("Cells", self.cells)):
            shown = "" if len(frame) <= MOST_ROWS else f"The first {MOST_ROWS:,} of "
            note = Text(f"{shown}{count(len(frame), 'row')}.")
            sections.append(Section(name.lower(), name, [note, Listing(name, table_of(frame))]))
        return sections

    def cell_name(self, cell: Mapping[str, Any]) -> str:
        """Name a cell, given its values in ``place``."""
        return ", ".join(f"{name} {value}" for name, value in cell.items())

    # What all of them say.

    @property
    def scoring(self) -> str | None:
        """The scoring by which the best candidate was chosen; None for the command's own."""
        found = getattr(self.record.options, "scoring", None)
        return found if isinstance(found, str) else None

    @property
    def measure(self) -> Measure:
        """What is shown of the scores by which the best candidate was chosen."""
        return measure_of(self.scoring)

    @property
    def best(self) -> BestMetadata | None:
        """The best candidate."""
        return self.record.best

    @property
    def best_score(self) -> tuple[float, float | None] | None:
        """Mean score of the best candidate over the folds, and its standard deviation."""
        if (best := self.best) is None:
            return None
        if best.score_mean is not None:
            return best.score_mean, best.score_std
        return None if best.error_mean is None else (1 - best.error_mean, best.error_std)

    def answer_with(self, candidate: str) -> str:
        """Give the best candidate and its errors in a sentence."""
        measure, found = self.measure, []
        if self.best_score is not None:
            mean_and_spread = measure.mean_and_spread(*self.best_score)
            found.append(f"{mean_and_spread} cross-validated {measure.name}")
        scores = getattr(self.record, "test_scores", {})
        if (error := self.record.test_error) is not None:
            what = percent(error) if measure.is_error else f"{percent(error)} error"
            n_wrong, n_test = self.record.n_test_errors, self.record.dataset.n_test
            counted = "" if None in (n_wrong, n_test) else f" ({n_wrong:,} of {n_test:,})"
            found.append(f"{what} on the test set{counted}")
        elif (score := scores.get(self.scoring)) is not None:
            found.append(f"{measure.text(measure.of(score))} on the test set")
        return f"{candidate}: {', '.join(found)}." if found else ""

    def score_cards(self) -> list[Card]:
        """Return cross-validated scores, those of the test set, and what they should beat."""
        record, measure, cards = self.record, self.measure, []
        if self.best_score is not None:
            mean, std = self.best_score
            spread = "mean over the folds"
            if std is not None:
                spread = f"± {measure.text(std)}, standard deviation"
                spread += f" of {self.n_folds} folds" if self.n_folds else " over the folds"
            cards.append(Card(f"cv {measure.name}", measure.text(measure.of(mean)), spread))
        if (nested := getattr(record, "nested", None)) is not None:
            note = f"± {measure.text(nested.score_std)} over {nested.n_outer} outer folds"
            value = measure.text(measure.of(nested.score_mean))
            cards.append(Card(f"nested {measure.name}", value, note))
        if record.test_error is not None:
            note = wrong_of(record.n_test_errors, record.dataset.n_test)
            cards.append(Card("test error", percent(record.test_error), note))
        for name, score in getattr(record, "test_scores", {}).items():
            shown = measure_of(name)
            if score is not None and not shown.is_error:
                n_test = record.dataset.n_test
                note = "" if n_test is None else count(n_test, "test sample")
                cards.append(Card(f"test {shown.name}", shown.text(shown.of(score)), note))
        if record.test_log_loss is not None:
            error = record.test_calibration_error
            note = "" if error is None else f"calibration error {percent(error)}"
            cards.append(Card("test log loss", f"{record.test_log_loss:.4f}", note))
        return [*cards, *self.baseline_cards()]

    def baseline_cards(self) -> list[Card]:
        """Return what a result should beat, if the run measured it."""
        if (baseline := self.record.baseline) is None:
            return []
        if (error := baseline.test_error) is not None:
            value, what = percent(error), "test error"
        elif baseline.score_mean is not None:
            shown = measure_of(baseline.scoring)
            value, what = shown.text(shown.of(baseline.score_mean)), f"cross-validated {shown.name}"
        elif baseline.test_metric is not None:
            value, what = f"{baseline.test_metric:.4g}", "mean absolute error on the test set"
        else:
            return []
        return [Card("baseline", value, f"{what} of {baseline.words}")]

    def subtitle(self) -> str:
        """Say what was done, on what, and when."""
        record = self.record
        dataset, cluster = record.dataset, record.cluster
        text = self.size()
        if n_folds := self.n_folds:
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
            text += f"; {count(cluster.n_workers, 'worker')} ({cluster.kind})"
        if solver := record.solver or record.options.solver:
            text += f", solver {solver}"
        if record.started:
            text += f"; started {timestamp(record.started)}"
        if record.wall_seconds is not None:
            text += f", finished in {duration(record.wall_seconds)}"
        return text + "."

    def state(self) -> str:
        """Say why the page is incomplete; empty for a finished run."""
        status, reason = self.record.status, self.record.reason
        if status == "finished":
            return ""
        n_cells = self.record.n_cells
        if n_cells is None:  # None still, where the options do not say
            sizes = [getattr(self.record.options, name) for name in self.sizes]
            n_cells = math.prod(sizes) if sizes and None not in sizes else None
        verb = {"running": "is still running", "stopped": "was stopped", "failed": "failed"}
        have = f"{len(self.cells):,} of {n_cells:,}" if n_cells else f"{len(self.cells):,}"
        return (
            f"This run {verb.get(status, 'is ' + status)}{f' ({reason})' if reason else ''}: "
            f"{have} cells are here. "
            "What is there is drawn; with --resume the command goes on from it."
        )

    def last_sections(self) -> list[Section]:
        """Return failures, time, files and how to reproduce the run."""
        return [
            Section("failures", "Failures", self._failures()),
            Section("time", "Time", self._time()),
            Section("files", "Files", [Listing("Files", file_table(self.path))]),
            Section("reproduce", "How to reproduce", self._how_to_reproduce()),
        ]

    def _failures(self) -> list[Part | None]:
        """List failures with their place, the most frequent first; from the cells if any."""
        place = list(self.place)
        if not place:  # what tells one cell from another, of a command that does not say
            columns = list(self.cells.columns)
            place = columns[: columns.index("fold") + 1 if "fold" in columns else 1]
        found: list[tuple[str, int, Sequence[Any]]] = []
        if "status" in self.cells and len(self.cells):
            wrong = self.cells[self.cells["status"] != "ok"]
            for status, group in wrong.groupby("status", dropna=False):
                found.append((str(status), len(group), group[place].to_dict("records")))
        else:
            for one in self.record.failures:
                found.append((one.status, one.count or len(one.cells), one.cells))
        parts: list[Part | None] = []
        for status, n_cells, cells in sorted(found, key=lambda one: (-one[1], one[0])):
            named = [[self.cell_name(cell)] for cell in cells[:MOST_FAILED_CELLS]]
            more = n_cells - len(named)
            rest = Text(f"… and {more:,} more, in {names.CELLS}.") if more else None
            title = f"{count(n_cells, 'cell')} {status}"
            listing = Listing(title, Table.of(("cell",), named))
            parts.append(Folded(title, [listing, rest], n_cells <= FEW_FAILURES))
        return parts

    @property
    def worker_addresses(self) -> list[str]:
        """The workers in the order of ``run.json``; see ``workers_of``."""
        return workers_of(self.tasks, [worker.address for worker in self.record.cluster.workers])

    def _time(self) -> list[Part | None]:
        record, addresses, words = self.record, self.worker_addresses, []
        if record.wall_seconds is not None:
            cells = "" if record.n_cells is None else f" for {count(record.n_cells, 'cell')}"
            words.append(
                f"The run took {duration(record.wall_seconds)}{cells}, not counting imports and "
                "this page."
            )
        if record.compile_seconds and record.compile_seconds >= WORTH_SAYING:
            words.append(
                f"Compiling took {duration(record.compile_seconds)} of it; later runs save that."
            )
        share = busy_share(self.tasks, addresses)
        if (share := record.busy_share if share is None else share) is not None:
            words.append(
                f"The workers were busy {100 * share:.0f} % of the time from the first task to "
                "the end of the last."
            )
        if not self.tasks:
            return [Text(" ".join(words))]
        alt = "The tasks of each worker over time; the table of the workers has the numbers."
        caption = (
            "Each bar is a task on its worker; what stays pale is idle time. The share at the "
            "right is the time the worker was busy."
        )
        draw = partial(timeline, self.tasks, addresses)
        return [
            Text(" ".join(words)),
            Chart("timeline", draw, alt, caption, wide=True),
            Listing("Workers", self._workers(addresses)),
        ]

    def _workers(self, addresses: Sequence[str]) -> Table:
        devices = {
            worker.address: (worker.host or "", worker.gpu or "CPU")
            for worker in self.record.cluster.workers
        }
        rows: list[list[Value]] = []
        for row in worker_timelines(self.tasks, addresses):
            share = math.nan if row.busy_share is None else row.busy_share
            rows.append(
                [
                    Cell(worker_name(row.worker), row.worker),
                    *devices.get(row.worker, ("", "")),
                    (len(row.tasks), f"{len(row.tasks):,}"),
                    (row.busy_seconds, duration(row.busy_seconds)),
                    (share, f"{100 * share:.0f} %"),
                ]
            )
        return Table.of(("worker", "host", "device", "tasks", "busy time", "busy share"), rows)

    def _how_to_reproduce(self) -> list[Part | None]:
        record, dataset = self.record, self.record.dataset
        devices = Counter(
            f"{worker.gpu or 'CPU'} on {worker.host or 'an unknown host'}"
            for worker in record.cluster.workers
        )
        # What a reproduction must share with this run.
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
        versions, options = (
            [(str(key), plain(value)) for key, value in section.items()]
            for section in (record.versions, self.metadata.get("options", {}))
        )
        return [
            Command(shlex.join(as_typed(record.argv))) if record.argv else None,
            Pairs([(name, str(value)) for name, value in metadata if value not in (None, "")]),
            Text("Versions", "h3") if versions else None,
            Pairs(versions, short=True),
            Folded("Every option", [Pairs(options, short=True)]) if options else None,
        ]


def shown_scores(candidates: pd.DataFrame, measure: Measure) -> tuple[pd.Series, pd.Series]:
    """Return what is shown of every candidate's mean score, and the standard deviation."""
    if measure.is_error and "error_mean" in candidates:  # as it is, not 1 less what it is from 1
        return candidates["error_mean"], candidates["error_std"]
    mean, std = scores(candidates)
    return measure.of(mean), std


def as_good_card(
    found: WithinOneStandardError | None, best_is_simplest: str, simplest: str
) -> list[Card]:
    """Count the candidates that are as good as the best, and describe the simplest of them."""
    if found is None:
        return []
    within, tied = int(found.within.sum()) - 1, int(found.tied.sum()) - 1
    if not within:
        return [Card("as good as the best", "no other", "within one standard error")]
    note = "within one standard error" + (f", {tied:,} of them tied" if tied else "")
    note += f"; {simplest if found.has_simpler else best_is_simplest}"
    return [Card("as good as the best", count(within, "other"), note)]


Column = tuple[str, Callable[[Mapping[str, Any]], Value]]  # its heading, and a candidate's value


def candidates_table(
    candidates: pd.DataFrame, measure: Measure, found: WithinOneStandardError | None, simplest: str,
    named: Sequence[Column], scored: Sequence[Column], more: Sequence[Column],
) -> Table:  # fmt: skip
    """Return the table of the candidates, and which of them are as good as the best.

    Parameters
    ----------
    candidates : all of them
    measure : of their scores
    found : those within one standard error of the best
    simplest : what the simplest of these is marked with
    named, scored, more : columns that name a candidate, other scores, and the last ones
    """
    columns: list[Column] = [
        ("rank", lambda row: (row["rank"], f"{row['rank']:.0f}")),
        *named,
        (f"cv {measure.name}",
         lambda row: cell((row["shown"], measure.text(row["shown"])), missing="failed")),
        ("standard deviation", lambda row: (row["spread"], measure.text(row["spread"]))),
        *scored,
        ("folds with a score", lambda row: (row["n_ok"], f"{row['n_ok']:.0f}")),
        *more,
    ]  # fmt: skip
    heads, rows = (*(head for head, _ in columns), AS_GOOD), list[list[Value]]()
    if len(candidates):
        means, stds = shown_scores(candidates, measure)
        table = candidates.assign(shown=means.astype(float), spread=stds.astype(float))
        marks = found.marks(simplest) if found else [""] * len(table)
        every: list[Any] = table.head(MOST_ROWS).to_dict("records")
        for row, mark in zip(every, marks, strict=False):
            rows.append([*(value(row) for _, value in columns), mark])
    return Table.of(heads, rows)


def candidates_section(
    candidates: pd.DataFrame, table: Table, order: str, more: str = ""
) -> Section:
    """Return the section of the candidates.

    Parameters
    ----------
    candidates : all of them
    table : those that are shown
    order : what they are ordered by
    more : sentences on the columns
    """
    n = len(candidates)
    which = f"The first {len(table):,} of {n:,}" if len(table) < n else f"All {n:,}"
    which += " candidates" if n != 1 else " candidate"
    paper = Text(f"On paper: the first 30. All of them are in {names.CANDIDATES}.", style="paper")
    words = Text(f"{which}, best first {order}. {more}".strip())
    return Section("candidates", "Candidates", [words, Listing("Candidates", table), paper])


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
