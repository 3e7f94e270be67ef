"""The page of a run: the cards and sections that all commands have in common."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar
from urllib.parse import quote

import pandas as pd

from pipelines.errors import as_typed
from pipelines.report.classification import test_section
from pipelines.report.parts import (
    MOST_ROWS,
    Card,
    Chart,
    CommandLine,
    Folded,
    Listing,
    Pairs,
    Part,
    Section,
    Text,
)
from pipelines.report.timeline import timeline
from pipelines.report.wording import count, duration, percent, timestamp, typed_value, wrong_of
from pipelines.run_folder import names
from pipelines.run_folder.journal import MEMORY
from pipelines.run_folder.measures import Measure, measure_of
from pipelines.run_folder.ranking import have_all_folds
from pipelines.run_folder.reading import RunData
from pipelines.run_folder.record import (
    AcceptedMetadata,
    BestMetadata,
    Record,
    recycled_in_words,
    splits_in_words,
    splits_of_best_in_words,
)
from pipelines.run_folder.statistics import within_one_standard_error
from pipelines.run_folder.work_time import busy_fraction, peaks, workers_of

MOST_FAILED_CELLS = 50
FEW_FAILURES = 5  # up to this many, the list of failed cells is open when the page opens
IN_WORDS = {"center": "centre"}
WORTH_SAYING = 0.5  # seconds of compilation from which the page mentions it


@dataclass(frozen=True)
class Report(RunData):
    """A run and the content of its page.

    Each command has a subclass with its cards and sections. A command without one gets a page of
    the tables that its run folder has.

    Attributes
    ----------
    title : str
        Heading of the page; empty for the name of the command.
    noun : str
        What a row of ``cells`` is called in a sentence, such as "fit" or "epoch".
    simplest : str
        Word for the simplest candidate within one standard error of the best, such as "fastest to
        fit".
    simple_by : sequence of str
        Columns by which candidates are compared for simplicity, the most important first. The
        smaller the value, the simpler the candidate.
    """

    title: ClassVar[str] = ""
    noun: ClassVar[str] = "fit"
    simplest: ClassVar[str] = "simplest"
    simple_by: ClassVar[Sequence[str]] = ()

    @classmethod
    def of(cls, record: Record) -> type[Report]:
        """The class that draws the page of a run: this class, or one for the run's task."""
        return cls

    # What a command may override.

    def size(self) -> str:
        """What was searched: the beginning of the line under the title."""
        return "A run"

    def conclusion(self) -> str:
        """A sentence that names the best candidate, or says why there is none yet."""
        return ""

    def cards(self) -> list[Card]:
        """The cards at the top of the page: the main numbers of the run."""
        return self.score_cards()

    def warnings(self) -> list[tuple[str, str]]:
        """Warnings as sentences, each with a command line that helps, or with ``""``."""
        return []

    def sections(self) -> list[Section]:
        """The sections after the cards, without those that end every page."""
        sections = [test_section(self)]
        for name, frame in (("Candidates", self.candidates), ("Fits", self.cells)):
            shown = "" if len(frame) <= MOST_ROWS else f"The first {MOST_ROWS:,} of "
            note = Text(f"{shown}{count(len(frame), 'row')}.")
            sections.append(Section(name.lower(), name, [note, Listing(name, frame)]))
        return sections

    def cell_name(self, cell: Mapping[str, Any]) -> str:
        """Text that names a cell, from its values in ``key_columns``."""
        return ", ".join(f"{name} {value}" for name, value in cell.items())

    def candidate_name(self, candidate: Mapping[str, Any]) -> str:
        """Text that names a candidate, from its row in the table of candidates."""
        return self.cell_name(candidate)

    # What all commands have in common.

    @property
    def scoring(self) -> str | None:
        """Name of the scorer that chose the best candidate; None for the command's default."""
        scoring = self.record.options.scoring
        return scoring if isinstance(scoring, str) else None

    @property
    def measure(self) -> Measure:
        """How scores of the best candidate are shown: as an error, a loss or a score."""
        return measure_of(self.scoring)

    @property
    def best(self) -> BestMetadata | None:
        """The best candidate."""
        return self.record.best

    def score_cards(self) -> list[Card]:
        """Cards for the scores, the baseline, and candidates that are as good as the best."""
        record, measure, best, cards = self.record, self.measure, self.best, []
        if best is not None and best.score_mean is not None:
            words = f"of {splits_of_best_in_words(self.metadata)}"
            words = words if self.n_splits else "over the folds"
            spread = f"mean {words}"
            if best.score_std is not None:
                spread = f"± {measure.text(best.score_std)}, standard deviation {words}"
            value = measure.text(measure.of(best.score_mean))
            cards.append(Card(f"cv {measure.name}", value, spread))
        cards += self.nested_cards(measure)
        if record.test_error is not None:
            note = wrong_of(record.n_test_errors, record.dataset.n_test)
            cards.append(Card("test error", percent(record.test_error), note))
        cards += self.test_score_cards()
        if record.test_log_loss is not None:
            error = record.test_calibration_error
            note = "" if error is None else f"calibration error {percent(error)}"
            cards.append(Card("test log loss", f"{record.test_log_loss:.4f}", note))
        cards += self.baseline_cards()
        if marks := self.as_good:
            n_within, n_tied = sum(map(bool, marks)) - 1, sum("tied" in mark for mark in marks)
            note = "within one standard error" + (f", {n_tied:,} of them tied" if n_tied else "")
            simplest = [i for i, mark in enumerate(marks) if mark.endswith(self.simplest)]
            if n_within and not simplest:
                note += f"; the best is the {self.simplest}"
            for row in self.candidates.iloc[simplest].to_dict("records"):
                name = self.candidate_name({str(name): value for name, value in row.items()})
                note += (
                    f"; the {self.simplest}: {name}, {measure.text(measure.of(row['score_mean']))}"
                )
            cards.append(
                Card(
                    "as good as the best",
                    count(n_within, "other") if n_within else "no other",
                    note,
                )
            )
        return cards

    def test_score_cards(self) -> list[Card]:
        """Cards for the test scores other than the classification error."""
        n_test = self.record.dataset.n_test
        note = "" if n_test is None else count(n_test, "test sample")
        return [
            Card(f"test {measure.name}", measure.text(measure.of(score)), note)
            for name, score in self.record.test_scores.items()
            if score is not None and not (measure := measure_of(name)).is_error
        ]

    def nested_cards(self, measure: Measure, of: str = "") -> list[Card]:
        """A card for the estimate by nested cross-validation, if the run made one."""
        if (nested := self.record.nested) is None:
            return []
        note = f"± {measure.text(nested.score_std)} over {nested.n_outer} outer folds"
        value = measure.text(measure.of(nested.score_mean))
        return [Card(f"nested {measure.name}{of}", value, note)]

    def baseline_cards(self) -> list[Card]:
        """A card for the baseline, if the run measured one."""
        if (baseline := self.record.baseline) is None:
            return []
        if (error := baseline.test_error) is not None:
            value, quantity = percent(error), "test error"
        elif baseline.score_mean is not None:
            baseline_measure = measure_of(baseline.scoring)
            value, quantity = (
                baseline_measure.text(baseline_measure.of(baseline.score_mean)),
                f"cross-validated {baseline_measure.name}",
            )
        elif baseline.test_metric is not None:
            value, quantity = f"{baseline.test_metric:.4g}", "mean absolute error on the test set"
        else:
            return []
        return [Card("baseline", value, f"{quantity} of {baseline.words}")]

    @property
    def as_good(self) -> list[str] | None:
        """Mark of each candidate: "best", "tied", "within 1 SE" or "".

        None where no candidate has a score on all folds, and for commands without ``simple_by``.
        See ``pipelines.run_folder.statistics.within_one_standard_error``.
        """
        table = self.candidates
        if table.empty or not self.simple_by or not set(self.simple_by) <= set(table):
            return None
        n_folds = int(table["n_ok"].max())
        return within_one_standard_error(table, n_folds, self.simple_by, self.simplest)

    def candidates_section(
        self,
        name_columns: Mapping[str, Any],
        last_columns: Mapping[str, Any],
        formats: Mapping[str, Callable[[float], str]],
        words: str = "",
    ) -> Section:
        """The section that lists the candidates, best first.

        Parameters
        ----------
        name_columns : mapping of str to column
            Columns that name a candidate, after its rank.
        last_columns : mapping of str to column
            Columns after the scores.
        formats : mapping of str to callable
            How numbers of these columns are written, as for ``Listing``.
        words : str, default ""
            Sentences on the columns, above the table.

        Returns
        -------
        Section
            Without parts where the run has no candidates yet.
        """
        table, measure = self.candidates, self.measure
        if table.empty:
            return Section("candidates", "Candidates", [])
        score, part, part_columns = f"cv {measure.name}", f"{measure.name} of a part", {}
        marks = pd.Series(self.as_good or "", table.index)
        state, has_all_folds = "as good", have_all_folds(table)
        # Only where candidates differ in it: a fold failed, or the time budget ended.
        count_columns = {"folds with a score": table["n_ok"]} if table["n_ok"].nunique() > 1 else {}
        if n := int((~has_all_folds).sum()):
            part_columns = {part: measure.of(table["score_part"]).mask(has_all_folds)}
            state, marks = "state", marks.where(has_all_folds, table["stopped"])
            words += (
                f" {count(n, 'candidate')} {'was' if n == 1 else 'were'} not tried on all folds: "
                f"the state says why, and the {part} is the mean over what was tried. "
            )
            if has_all_folds.any():
                words += (
                    "Nothing is ranked by that, and what is tied, within one standard error or "
                    "simplest is said of the others alone."
                )
            if (
                table["n_ok"][has_all_folds].nunique() <= 1
            ):  # no fold failed; "state" covers the rest
                count_columns = {}
        frame = pd.DataFrame(
            {
                "rank": table["rank"],
                **name_columns,
                score: measure.of(table["score_mean"]),
                "standard deviation": table["score_std"],
                **count_columns,
                **part_columns,
                **last_columns,
                state: marks,
            }
        )
        column_formats = dict.fromkeys((score, part, "standard deviation"), measure.text) | {
            **formats
        }
        return candidates_section(
            frame, column_formats, f"mean {measure.name} over the folds", words
        )

    def subtitle(self) -> str:
        """The line under the title: what was done, on which data, where and when."""
        record = self.record
        data, cluster = record.dataset, record.cluster
        solver = record.solver or record.options.solver
        phrases = (
            (self.size(), True),
            (self._validation, self.n_splits),
            (count(data.n_train or 0, "training sample"), data.n_train is not None),
            (count(data.n_features or 0, "feature"), data.n_features is not None),
            (count(data.n_classes or 0, "class", "classes"), data.n_classes is not None),
            (f"{count(cluster.n_workers or 0, 'worker')} ({cluster.kind})", cluster.n_workers),
            (f"solver {solver}", solver),
            (f"started {timestamp(record.started or '')}", record.started),
            (f"finished in {duration(record.wall_seconds)}", record.wall_seconds is not None),
        )
        return f"{', '.join(text for text, is_known in phrases if is_known)}."

    @property
    def _validation(self) -> str:
        words = splits_in_words(self.metadata)
        n_folds, _, are_folds = words.partition(" fold")
        return f"{n_folds}-fold cross-validation" if are_folds else f"cross-validation on {words}"

    def state(self) -> str:
        """Why the page is incomplete; empty for a finished run."""
        status, reason = self.record.status, self.record.reason
        if status == "finished":
            return ""
        verb = {"running": "is still running", "stopped": "was stopped", "failed": "failed"}
        return (
            f"This run {verb.get(status, 'is ' + status)}{f' ({reason})' if reason else ''}: "
            f"{count(len(self.cells), self.noun)} {'is' if len(self.cells) == 1 else 'are'} here. "
            "What is there is drawn; with --resume the command goes on from it."
        )

    def last_sections(self) -> list[Section]:
        """The sections that end every page: failures, time, files, and how to reproduce the run."""
        return [
            Section("failures", "Failures", self._failures()),
            Section("time", "Time", self._time()),
            Section("files", "Files", [self._files()]),
            Section("reproduce", "How to reproduce", self._how_to_reproduce()),
        ]

    def _failures(self) -> list[Part | None]:
        """Lists of failed cells, one for each status, the most frequent status first.

        They come from ``cells``, or from ``run.json`` where the table has no status.
        """
        key_columns = list(self.key_columns)
        if not key_columns:  # the command declares none: the columns up to the fold
            columns = list(self.cells.columns)
            key_columns = columns[: columns.index("fold") + 1 if "fold" in columns else 1]
        failures: list[tuple[str, int, Sequence[Any]]] = []
        if "status" in self.cells and len(self.cells):
            wrong = self.cells[self.cells["status"] != "ok"]
            for status, group in wrong.groupby("status", dropna=False):
                failures.append((str(status), len(group), group[key_columns].to_dict("records")))
        else:
            for failure in self.record.failures:
                failures.append(
                    (failure.status, failure.count or len(failure.cells), failure.cells)
                )
        parts: list[Part | None] = []
        for status, n_cells, cells in sorted(
            failures, key=lambda failure: (-failure[1], failure[0])
        ):
            cell_names = [self.cell_name(cell) for cell in cells[:MOST_FAILED_CELLS]]
            n_more = n_cells - len(cell_names)
            note = Text(f"… and {n_more:,} more, in {names.CELLS}.") if n_more else None
            title = f"{count(n_cells, self.noun)} {status}"
            listing = Listing(title, pd.DataFrame({self.noun: cell_names}))
            parts.append(Folded(title, [listing, note], n_cells <= FEW_FAILURES))
        return parts

    def _time(self) -> list[Part | None]:
        record, words = self.record, []
        addresses = workers_of(self.tasks, [worker.address for worker in record.cluster.workers])
        if record.wall_seconds is not None:
            cells = ""
            if self.n_splits and record.n_cells is not None:  # other commands count no fits
                cells = f" for {count(record.n_cells, self.noun)}"
            words.append(
                f"The run took {duration(record.wall_seconds)}{cells}, not counting imports and "
                "this page."
            )
        if record.compile_seconds and record.compile_seconds >= WORTH_SAYING:
            words.append(
                f"Compiling took {duration(record.compile_seconds)} of it; later runs save that."
            )
        fraction = busy_fraction(self.tasks, addresses)
        if (fraction := record.busy_share if fraction is None else fraction) is not None:
            words.append(
                f"The workers were busy {100 * fraction:.0f} % of the time from the first task to "
                "the end of the last."
            )
        if recycled := recycled_in_words(self.metadata):
            words.append(f"Recycled: {recycled}.")
        memory = peaks(self.tasks).values()
        worker_bytes, gpu_bytes = (
            max((peak.get(name, 0) for peak in memory), default=0) for name in MEMORY
        )
        if worker_bytes:
            gpu = f"; of a GPU: {gpu_bytes / 2**30:.1f} GiB" if gpu_bytes else ""
            words.append(f"Peak memory of a worker: {worker_bytes / 2**30:.1f} GiB{gpu}.")
        if not self.tasks:
            return [Text(" ".join(words))]
        caption = (
            "Each bar is a task on its worker; what stays pale is idle time. The percentage at "
            "the right is the fraction of the time in which the worker was busy."
        )
        draw = partial(timeline, self.tasks, addresses)
        return [Text(" ".join(words)), Chart("timeline", draw, caption, wide=True)]

    def _files(self) -> Listing:
        """The files of the run folder, without the figures, which the page itself contains."""
        run_files = [
            path
            for path in sorted(self.path.rglob("*"))
            if path.is_file()
            and path.suffix not in (".svg", ".png", ".part")
            and path.name != names.REPORT
        ]
        paths = [path.relative_to(self.path).as_posix() for path in run_files]
        files = pd.DataFrame(
            {"file": paths, "kB": [file.stat().st_size / 1000 for file in run_files]}
        )
        return Listing("Files", files, {"kB": "{:,.1f}".format}, [quote(path) for path in paths])

    def _how_to_reproduce(self) -> list[Part | None]:
        record, dataset = self.record, self.record.dataset
        devices = Counter(
            f"{worker.gpu or 'CPU'} on {worker.host or 'an unknown host'}"
            for worker in record.cluster.workers
        )

        def entries_in_words(values: Mapping[str, Any] | None) -> str:
            return ", ".join(_in_words(name, value) for name, value in (values or {}).items())

        # What must be equal in a run that reproduces this one.
        metadata = [
            ("Seed", record.seed),
            ("Data set", dataset.name),
            ("Data fingerprint", dataset.fingerprint),
            ("Scaling", entries_in_words(dataset.scaling)),
            ("Test samples", dataset.n_test and f"{dataset.n_test:,}"),
            ("Devices", "; ".join(f"{number} × {name}" for name, number in devices.items())),
            ("Machine", entries_in_words(record.machine)),
            ("Commit", record.commit),
            ("Accepted changes", "; ".join(map(_accepted, record.accepted))),
            ("Started", record.started and timestamp(record.started)),
            ("Finished", record.finished and timestamp(record.finished)),
        ]
        versions, options = (
            [(str(key), typed_value(value)) for key, value in section.items()]
            for section in (record.versions, self.metadata.get("options", {}))
        )
        return [
            CommandLine(shlex.join(as_typed(record.argv))) if record.argv else None,
            Pairs([(name, str(value)) for name, value in metadata if value not in (None, "")]),
            Text("Versions", "h3") if versions else None,
            Pairs(versions, short=True),
            Folded("Every option", [Pairs(options, short=True)]) if options else None,
        ]


def _in_words(name: str, value: Any) -> str:
    """An entry of a nested record in words: ``fitted on training rows``, ``scale 4.619``."""
    if isinstance(value, list | tuple):
        value = "; ".join(map(str, value))
    elif isinstance(value, float):
        value = f"{value:.6g}"
    return f"{IN_WORDS.get(name, name.replace('_', ' '))} {value}"


def _accepted(accepted: AcceptedMetadata) -> str:
    """What had changed between two sessions of a run and was accepted by the user."""
    changes = [f"{what} was {was} and is {now}" for what, (was, now) in accepted.changed.items()]
    return f"{accepted.run}: {', '.join(changes) or 'not checked, as it had none recorded'}"


def candidates_section(
    frame: pd.DataFrame, formats: Mapping[str, Callable[[float], str]], order: str, words: str = ""
) -> Section:
    """The section that lists candidates.

    Parameters
    ----------
    frame : DataFrame
        All candidates, best first; the page shows the first ``MOST_ROWS``.
    formats : mapping of str to callable
        How numbers of a column are written, as for ``Listing``.
    order : str
        What candidates are sorted by, to complete the sentence "best first by the ...".
    words : str, default ""
        Sentences on the columns, above the table.

    Returns
    -------
    Section
    """
    n, n_shown = len(frame), min(len(frame), MOST_ROWS)
    selection = f"The first {n_shown:,} of {n:,}" if n_shown < n else f"All {n:,}"
    selection += " candidates" if n != 1 else " candidate"
    paper = Text(f"On paper: the first 30. All of them are in {names.CANDIDATES}.", style="paper")
    text = Text(f"{selection}, best first by the {order}. {words}".strip())
    return Section("candidates", "Candidates", [text, Listing("Candidates", frame, formats), paper])
