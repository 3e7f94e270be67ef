"""The table of figures: which ones a run has, and what each shows in words."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from pipelines.report.classification_figures import (
    class_name,
    confusion_counts,
    confusion_matrix,
    wrong_test_points,
)
from pipelines.report.run_folder import ACCURACY, RunFolder, finite
from pipelines.report.style import figure_style, save
from pipelines.report.svm_figures import fold_errors, fold_errors_best, heat_map
from pipelines.report.timeline import timeline
from pipelines.report.wording import count, percent, significant


@dataclass(frozen=True)
class Drawn:
    """A figure as the page takes it: its file, size in CSS pixels, and text."""

    name: str
    width: int
    height: int
    alt: str
    data_uri: str


def draw_figures(run: RunFolder) -> dict[str, Drawn]:
    """Draw every figure the run has pieces for, as SVG and PNG in its folder."""
    drawn = {}
    with figure_style():
        for name, draw in FIGURES.items():
            made = draw(run)
            if made is not None:
                figure, alt = made
                drawn[name] = _embed(name, figure, alt, save(figure, run.path, name))
    return drawn


def _embed(name: str, figure: Figure, alt: str, path: Path) -> Drawn:
    width, height = figure.get_size_inches()
    code = base64.b64encode(path.read_bytes()).decode("ascii")
    uri = f"data:image/svg+xml;base64,{code}"
    return Drawn(name, round(96 * width), round(96 * height), alt, uri)


Made = tuple[Figure, str] | None


def _heat_map(run: RunFolder) -> Made:
    candidates = run.candidates
    if candidates.empty:
        return None
    alt = f"Heat map of the mean validation error of {count(len(candidates), 'candidate')}"
    if run.best is not None:
        alt += (
            f"; the best{_by_scoring(run)} is C = {significant(run.best.C)}, "
            f"gamma = {significant(run.best.gamma)} with an error of {percent(run.best.error_mean)}"
        )
    grids = (_grid(run, "log_c", "n_c"), _grid(run, "log_gamma", "n_gamma"))
    return heat_map(candidates, run.best, *grids), alt + "."


def _by_scoring(run: RunFolder) -> str:
    return "" if run.scoring == ACCURACY else f" by {run.scoring}"


def _grid(run: RunFolder, bounds: str, number: str) -> list[float]:
    """The whole grid of C or gamma as the options say it; empty where they do not."""
    options = run.part("options")
    ends, n_points = options.get(bounds), options.get(number)
    if not isinstance(ends, list | tuple) or len(ends) != 2 or not isinstance(n_points, int):
        return []
    low, high = finite(ends[0]), finite(ends[1])
    if low is None or high is None or n_points < 1:
        return []
    return [float(value) for value in np.logspace(low, high, n_points)]


def _fold_errors_best(run: RunFolder) -> Made:
    if run.best is None or run.cells.empty:
        return None
    alt = (
        f"Box plot of the validation errors of the folds against log10 C at the best gamma, "
        f"{significant(run.best.gamma)}; the best C{_by_scoring(run)} is "
        f"{significant(run.best.C)}, with a mean error of {percent(run.best.error_mean)}."
    )
    return fold_errors_best(run.cells, run.best), alt


def _fold_errors(run: RunFolder) -> Made:
    if run.cells.empty:
        return None
    n_gamma = run.cells["gamma"].nunique()
    alt = (
        "Box plots of the validation errors of the folds against log10 C, "
        f"{count(n_gamma, 'panel')}, one for each gamma, on the same axes."
    )
    return fold_errors(run.cells, run.best), alt


def _confusion_matrix(run: RunFolder) -> Made:
    if run.predictions is None or run.predictions.empty:
        return None
    true, predicted = (run.predictions[name].to_numpy(dtype=int) for name in ("true", "predicted"))
    n_classes = max(len(run.classes), int(max(true.max(), predicted.max())) + 1)
    names = [class_name(run.classes, code) for code in range(n_classes)]
    counts = confusion_counts(true, predicted, n_classes)
    errors = counts - np.diag(np.diag(counts))
    alt = f"Confusion matrix of {count(len(true), 'test point')}, {errors.sum()} of them wrong"
    if errors.any():
        row, column = np.unravel_index(errors.argmax(), errors.shape)
        alt += (
            f"; the most frequent error is {names[row]} taken for {names[column]}, "
            f"{count(int(errors.max()), 'time')}"
        )
    return confusion_matrix(counts, names), alt + "."


def _test_errors(run: RunFolder) -> Made:
    if run.wrong_images is None or not len(run.wrong_images.row):
        return None
    return wrong_test_points(run.wrong_images, run.classes), (
        "Images of wrongly classified test points, each with its row, its true class and "
        "the predicted class."
    )


def _timeline(run: RunFolder) -> Made:
    if not run.units:
        return None
    addresses = worker_addresses(run)
    n_workers = len({unit.worker for unit in run.units} | set(addresses))
    alt = (
        f"Timeline of {count(len(run.units), 'unit')} on {count(n_workers, 'worker')}, one lane "
        "for each worker; the table of the workers says the same in numbers."
    )
    return timeline(run.units, addresses), alt


def worker_addresses(run: RunFolder) -> list[str]:
    """The workers of ``run.json`` that ran a unit, in its order.

    Workers that ran none are kept too, as idle lanes, unless the journal names
    no worker that ``run.json`` knows: then the two speak of different runs.
    """
    workers = run.part("cluster").get("workers")
    known = [
        str(worker["address"])
        for worker in (workers if isinstance(workers, list) else [])
        if isinstance(worker, dict) and worker.get("address")
    ]
    return known if {unit.worker for unit in run.units} & set(known) else []


FIGURES: dict[str, Callable[[RunFolder], Made]] = {
    "heat_map": _heat_map,
    "fold_errors_best": _fold_errors_best,
    "fold_errors": _fold_errors,
    "confusion_matrix": _confusion_matrix,
    "test_errors": _test_errors,
    "timeline": _timeline,
}
