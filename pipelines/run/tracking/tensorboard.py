"""TensorBoard: event files, with a folder for each series, so that the series share a chart."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cluster_setup.installation import install_line
from pipelines.errors import InputError, opt
from pipelines.run.tracking.logger import RunEnd, RunLogger, RunStart
from pipelines.run_folder.rows import Metric
from pipelines.run_folder.schema import Scalar

FOLDER = "tensorboard"  # in that of the run, where no other is named
NOT_IN_FOLDERS = re.compile(r"[^\w\-.=, ]")


class TensorBoardLogger(RunLogger):
    """Logs to TensorBoard; the target is its log directory, by default one in the run's folder.

    In a directory that is named as the target, each run has a folder of its name.
    """

    def __init__(self, target: str = "") -> None:
        super().__init__(target)
        if find_spec("tensorboard") is None:
            raise InputError(
                f"{opt('log_to', 'tensorboard')} needs TensorBoard, which is not installed; run "
                f"{install_line('tensorboard')}"
            )
        # Here, as two threads should not import at once.
        import tensorboard.summary.writer.event_file_writer  # noqa: F401

        existing_folder = next(
            path for path in (Path(target), *Path(target).parents) if path.exists()
        )
        if target and not (existing_folder.is_dir() and os.access(existing_folder, os.W_OK)):
            raise InputError(
                f"{opt('log_to', 'tensorboard')} must be followed by a folder that can be written, "
                f"got {target!r}; name another one"
            )
        self._writers: dict[str, Any] = {}

    def begin(self, start: RunStart) -> Mapping[str, Scalar]:
        folder = Path(self.target, start.name) if self.target else start.folder / FOLDER
        self._folder = folder.absolute()
        self._folder.mkdir(parents=True, exist_ok=True)
        return {"where": str(self._folder)}

    def log(self, metrics: Sequence[Metric]) -> None:
        for metric in metrics:
            self._add(metric)
        for writer in self._writers.values():
            writer.flush()

    def finish(self, end: RunEnd) -> None:
        metrics = [Metric(name, value, 0) for name, value in end.metrics.items()]
        for metric in metrics:
            self._add(metric)
        for writer in self._writers.values():
            writer.close()

    def _add(self, metric: Metric) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        value = Summary.Value(tag=metric.name, simple_value=metric.value)
        event = Event(step=metric.step, summary=Summary(value=[value]))
        if metric.time:
            event.wall_time = metric.time
        self._writer(metric.series).add_event(event)

    def _writer(self, series: str) -> Any:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        if series not in self._writers:
            folder = self._folder / NOT_IN_FOLDERS.sub("_", series)
            self._writers[series] = EventFileWriter(str(folder))
        return self._writers[series]
