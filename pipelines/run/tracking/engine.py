"""The loggers of a session, each on a thread of its own; none can disturb the run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Self

from pipelines.console import Echo, phase
from pipelines.errors import error_line, flag_of
from pipelines.run.tracking import description
from pipelines.run.tracking.logger import RunEnd, RunLogger, RunStart, Status
from pipelines.run_folder.folder import RunFolder
from pipelines.run_folder.journal import Journal
from pipelines.run_folder.record import TrackerMetadata
from pipelines.run_folder.rows import Metric, Row

SECONDS_BETWEEN = 2.0  # two batches of metrics
SECONDS_UNTIL_AGAIN = 30.0  # after a batch that failed
SECONDS_TO_FINISH = 600.0  # that a finished run waits for its loggers, at most
SECONDS_TO_STOP = 20.0  # that a stopped run waits, as a queue may soon kill it


class LoggerThread(threading.Thread):
    """Calls one logger, with the new rows of the journal.

    Parameters
    ----------
    name : str
        The name of the logger.
    logger : RunLogger
    start : RunStart
    n_records : int
        Number of journal records that earlier sessions have logged.
    read : function of a number of journal records
        Returns the number of all records, and the metrics of those after so many.
    say : function of one line of text

    Attributes
    ----------
    state : mapping or None
        What ``begin`` returned; None before, and if it failed.
    n_records : int
        Number of journal records that were logged.
    is_whole : bool
        Whether the end of the run was logged, too.
    """

    def __init__(
        self,
        name: str,
        logger: RunLogger,
        start: RunStart,
        n_records: int,
        read: Callable[[int], tuple[int, list[Metric]]],
        say: Echo,
    ) -> None:
        super().__init__(name=f"log to {name}", daemon=True)
        self._logger, self._start, self._read, self._say = logger, start, read, say
        self._label, self._failed, self._not_before = name, False, 0.0
        self._live, self._n_live = list[Metric](), 0
        self._ended = threading.Event()
        self._end: Callable[[], RunEnd] | None = None
        self.state: Mapping[str, Any] | None = None
        self.n_records, self.is_whole = n_records, False

    def run(self) -> None:
        try:
            state = dict(self._logger.begin(self._start))
            if _without_place(state) != _without_place(self._start.state):
                self.n_records = 0
            self.state = state
        except Exception as error:
            self._warn(error)
            return
        self._say(f"{self._label:<10} run {self._start.name} in {state.get('where', self._label)}")
        while not self._ended.wait(SECONDS_BETWEEN):
            if time.monotonic() >= self._not_before:
                self._send()
        is_sent = self._send()
        try:
            if self._end is not None:
                self._logger.finish(self._end())
            self.is_whole = is_sent
        except Exception as error:
            self._warn(error)

    def tell(self, metrics: Sequence[Metric]) -> None:
        """Add metrics that are not in the journal yet."""
        self._live.extend(metrics)

    def end(self, end: Callable[[], RunEnd]) -> None:
        """Let the thread log what is left, and then the end; ``end`` returns what that is."""
        self._end = end
        self._ended.set()

    def wait(self, seconds: float) -> None:
        """Wait for the end of the thread, and warn if it takes longer."""
        self.join(seconds)
        if self.is_alive():
            self._warn(TimeoutError(f"no answer in {seconds:.0f} s"))

    def _send(self) -> bool:
        try:
            n_live = len(self._live)
            n_records, metrics = self._read(self.n_records)
            live_keys = {metric[2:4] + metric[:1] for metric in self._live}
            new_metrics = self._live[self._n_live : n_live]
            new_metrics += [
                metric for metric in metrics if metric[2:4] + metric[:1] not in live_keys
            ]
            if new_metrics:
                self._logger.log(new_metrics)
            self.n_records, self._n_live = n_records, n_live
            return True
        except Exception as error:
            self._not_before = time.monotonic() + SECONDS_UNTIL_AGAIN
            self._warn(error)
            return False

    def _warn(self, error: Exception) -> None:
        if not self._failed:
            self._failed = True
            self._say(
                f"warning    {self._label} does not take the log ({error_line(error)}): the run "
                "goes on, and logs the rest when it can, or when it is resumed"
            )


def _without_place(state: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in state.items() if name != "where"}


class Tracking:
    """The loggers of a session, from its first task to its end.

    Parameters
    ----------
    row : type
        The schema of the rows in the journal.
    model_files : sequence of str
        Patterns of the files of the model.
    folder : RunFolder
    journal : Journal
    loggers : mapping of str to RunLogger
        By their names and targets.
    echo : function of one line of text
    with_candidates : bool, default False
        Whether each candidate is logged as a run, too, once the run is finished.
    """

    def __init__(
        self,
        row: type[Row],
        model_files: Sequence[str],
        folder: RunFolder,
        journal: Journal,
        loggers: Mapping[str, RunLogger],
        echo: Echo,
        with_candidates: bool = False,
    ) -> None:
        self._row, self._model_files = row, model_files
        self._folder, self._journal = folder, journal
        self._loggers, self._echo, self._with_candidates = loggers, echo, with_candidates
        self._threads: dict[str, LoggerThread] = {}
        self._recorded_loggers = set[str]()

    def begin(self, options: type[Any]) -> None:
        """Begin to log, to the same run of the tracker as earlier sessions.

        Parameters
        ----------
        options : type
            The dataclass of the command's options.
        """
        if not self._loggers:
            return
        earlier_entries = self._earlier()
        start = description.start_of(self._folder.path, self._folder.record, options)
        for key, logger in self._loggers.items():
            earlier_entry = earlier_entries.get(key, TrackerMetadata())
            if earlier_entry.is_whole and self._folder.record["status"] == "finished":
                continue
            name = key.partition(":")[0]
            logger_start = replace(start, state=earlier_entry.state)
            thread = LoggerThread(
                name, logger, logger_start, earlier_entry.n_records, self._read, self._echo
            )
            thread.start()
            self._threads[key] = thread

    def keep(self) -> None:
        """Record where the run is logged as soon as that is known, as the run may be killed."""
        begun_loggers = {key for key, thread in self._threads.items() if thread.state is not None}
        if not begun_loggers <= self._recorded_loggers:
            self._keep()
            self._recorded_loggers = begun_loggers

    def tell(self, row: Mapping[str, Any]) -> None:
        """Log a row at once; the journal gets it later, with the others of its task."""
        if self._threads:
            now = time.time()
            metrics = [metric._replace(time=now) for metric in self._row.metrics(row, 0)]
            for thread in self._threads.values():
                thread.tell(metrics)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        record = self._folder.record
        status: Status = "failed"
        if record.get("status") == "finished":
            status = "finished"
        elif record.get("reason") == "stopped on request":
            status = "killed"
        seconds = SECONDS_TO_FINISH if status == "finished" else SECONDS_TO_STOP
        for thread in self._threads.values():
            thread.end(lambda: self._end(status))
        for key, thread in self._threads.items():
            with phase(self._echo, f"{key.partition(':')[0]:<10} sending the rest of the log"):
                thread.wait(seconds)
            if not thread.is_whole:
                label, resume_option = (
                    key.partition(":")[0],
                    f"{flag_of('resume')} {self._folder.path}",
                )
                self._echo(
                    f"warning    {label} has not got all of the log; {resume_option} sends the rest"
                )
        if self._threads:
            self._keep()

    def _earlier(self) -> dict[str, TrackerMetadata]:
        trackers = self._folder.record.get("trackers", {})
        return {key: TrackerMetadata.model_validate(entry) for key, entry in trackers.items()}

    def _keep(self) -> None:
        """Record in ``run.json`` where the run is logged, and how much of it."""
        trackers = dict(self._folder.record.get("trackers", {}))
        is_finished = self._folder.record.get("status") == "finished"
        for key, thread in self._threads.items():
            entry = dict(trackers.get(key, {}))
            if thread.state is not None:
                entry = {"state": dict(thread.state), "n_records": thread.n_records}
            trackers[key] = entry | {"is_whole": thread.is_whole and is_finished}
        with suppress(OSError):  # a full disk, or a folder that is gone: the run says that itself
            self._folder.update(trackers=trackers)

    def _read(self, n_logged: int) -> tuple[int, list[Metric]]:
        """The number of records in the journal, and the metrics of those not logged yet."""
        records = self._journal.records[:]
        number = sum(len(record["rows"]) for record in records[:n_logged])
        metrics = description.record_metrics(self._row, records[n_logged:], number)
        return len(records), list(metrics)

    def _end(self, status: Status) -> RunEnd:
        path, record = self._folder.path, self._folder.record
        metrics, parameters = description.answer_of(record)
        candidates = []
        if self._with_candidates and status == "finished":
            candidates = description.scored_candidates(self._row, self._journal.records)
        return RunEnd(
            status,
            metrics,
            parameters,
            description.artifacts_of(path, self._model_files),
            description.conclusion_of(path) if status == "finished" else "",
            candidates,
        )
