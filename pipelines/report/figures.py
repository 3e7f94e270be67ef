"""Drawing the figures of a run, and those that every classifier has."""

from __future__ import annotations

import base64
import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from matplotlib.figure import Figure

from pipelines.report.classification import (
    class_name,
    confusion_counts,
    confusion_matrix,
    wrong_images,
    wrong_test_samples,
)
from pipelines.report.style import figure_style, on_a_phone, save, svg_of
from pipelines.report.timeline import timeline
from pipelines.report.wording import count
from pipelines.run_folder.reading import Run
from pipelines.run_folder.work_time import all_workers, workers_of

AnyRun = TypeVar("AnyRun", bound=Run[Any])
# A figure and what it shows in words; None where the run has no pieces for it.
Made = tuple[Figure, str] | None
Draw = Callable[[AnyRun], Made]


@dataclass(frozen=True)
class Drawn:
    """A figure as the page takes it: its file, size in CSS pixels, text; and for a phone."""

    name: str
    width: int
    height: int
    alt: str
    data_uri: str
    on_a_phone: str = ""


def draw_figures(run: AnyRun, figures: Mapping[str, Draw[AnyRun]]) -> dict[str, Drawn]:
    """Draw every figure the run has pieces for, as SVG and PNG in its folder."""
    drawn = {}
    with figure_style(), _nothing_collected():
        for name, draw in figures.items():
            made = draw(run)
            if made is not None:
                figure, alt = made
                drawn[name] = embedded(name, figure, alt, save(figure, run.path, name))
                with on_a_phone():
                    if again := draw(run):
                        narrow = _data_uri(svg_of(again[0]))
                        drawn[name] = replace(drawn[name], on_a_phone=narrow)
    return drawn


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Draw inside this without Python's search for cycles: a figure makes objects by the hundred
    thousand, and to look through them again and again takes a seventh of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def embedded(name: str, figure: Figure, alt: str, saved: Path | None = None) -> Drawn:
    """Return a figure as the page takes it, drawn now or saved as SVG before."""
    width, height = figure.get_size_inches()
    svg = svg_of(figure) if saved is None else saved.read_bytes()
    return Drawn(name, round(96 * width), round(96 * height), alt, _data_uri(svg))


def _data_uri(svg: bytes) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode('ascii')}"


def _of_confusion(run: Run[Any]) -> Made:
    if run.predictions is None or run.predictions.empty:
        return None
    true, predicted = (run.predictions[name].to_numpy(dtype=int) for name in ("true", "predicted"))
    n_classes = max(len(run.classes), int(max(true.max(), predicted.max())) + 1)
    names = [class_name(run.classes, code) for code in range(n_classes)]
    counts = confusion_counts(true, predicted, n_classes)
    errors = counts - np.diag(np.diag(counts))
    alt = f"Confusion matrix of {count(len(true), 'test sample')}, {errors.sum()} of them wrong"
    if errors.any():
        row, column = np.unravel_index(errors.argmax(), errors.shape)
        alt += (
            f"; the most frequent error is {names[row]} taken for {names[column]}, "
            f"{count(int(errors.max()), 'time')}"
        )
    return confusion_matrix(counts, names), alt + "."


def _of_wrong_test_samples(run: Run[Any]) -> Made:
    wrong = wrong_images(run)
    if wrong is None or not len(wrong.row):
        return None
    return wrong_test_samples(wrong, run.classes), (
        "Images of wrongly classified test samples, each with its row, its true class and "
        "the predicted class."
    )


def _of_timeline(run: Run[Any], colour_by: str) -> Made:
    if not run.tasks:
        return None
    addresses = worker_addresses(run)
    n_workers = len(all_workers(run.tasks) | set(addresses))
    alt = (
        f"Timeline of {count(len(run.tasks), 'task')} on {count(n_workers, 'worker')}, one lane "
        "for each worker; the table of the workers says the same in numbers."
    )
    return timeline(run.tasks, addresses, colour_by), alt


def worker_addresses(run: Run[Any]) -> list[str]:
    """Return the workers of a run, in the order of ``run.json``; see ``workers_of``."""
    return workers_of(run.tasks, [worker.address for worker in run.record.cluster.workers])


def of_any_run(colour_by: str = "") -> dict[str, Draw[Run[Any]]]:
    """Return the figures that do not depend on the command.

    ``colour_by`` names the column of positive numbers that tells one task from another.
    """
    return {
        "confusion_matrix": _of_confusion,
        "test_errors": _of_wrong_test_samples,
        "timeline": partial(_of_timeline, colour_by=colour_by),
    }
