"""Several runs side by side: their answers, their options, and tests of what differs."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from pipelines.errors import InputError
from pipelines.report.base import Report
from pipelines.report.charts import title_and_key
from pipelines.report.page import charts_of, draw_figures, read_run, write_html
from pipelines.report.parts import Chart, Listing, Section, Text
from pipelines.report.style import BLUE, SKY, VERMILLION, WIDE, figure_style, percent_labels
from pipelines.report.wording import count, duration, percent, plain, wrong_of
from pipelines.run_folder.names import REPORT
from pipelines.run_folder.record import n_splits_of
from pipelines.run_folder.statistics import corrected_t, holm

# Where a run is kept and how it is watched says nothing of its result.
NOT_COMPARED = {"results", "resume", "quiet", "dry_run", "dashboard"}
DATA_DIFFER = (
    "These runs have different data: errors on different data, or on other rows of the same data, "
    "do not show which run is better."
)
Runs = Mapping[str, Report]  # by their names


def distinct(folders: Sequence[Path]) -> list[Path]:
    """Return the paths of different folders; a run that is named twice is refused."""
    paths = [Path(folder).resolve() for folder in folders]
    for path in paths:
        if paths.count(path) > 1:
            raise InputError(f"RUN must be different run folders, got {path} twice; name it once")
    return paths


def read_runs(folders: Sequence[Path]) -> Runs:
    """Return the runs in these folders, named as briefly as tells them apart.

    Raises
    ------
    pipelines.errors.InputError
        One of them is no run folder, or is there twice.
    """
    paths = distinct(folders)
    common = Path(os.path.commonpath([path.parent for path in paths]))
    return {str(path.relative_to(common)): read_run(path) for path in paths}


def compare_table(folders: Sequence[Path]) -> pd.DataFrame:
    """Build a table with one row for each run.

    Returns
    -------
    table with the columns ``command``, ``data``, ``n_train``, ``cv_error_mean``,
    ``cv_error_std``, ``test_error`` (fractions), ``wall_seconds``, ``n_workers``,
    ``status``, indexed by the run's name
    """
    return _table(read_runs(folders))


def _table(runs: Runs) -> pd.DataFrame:
    rows = {}
    for name, run in runs.items():
        record, best = run.record, run.record.best
        rows[name] = {
            "command": record.command,
            "data": record.dataset.name,
            "n_train": record.dataset.n_train,
            "cv_error_mean": math.nan if best is None else best.error_mean,
            "cv_error_std": math.nan if best is None else best.error_std,
            "test_error": record.test_error,
            "wall_seconds": record.wall_seconds,
            "n_workers": record.cluster.n_workers,
            "status": record.status,
        }
    numbers = ["cv_error_mean", "cv_error_std", "test_error", "wall_seconds"]
    return pd.DataFrame.from_dict(rows, orient="index").astype(dict.fromkeys(numbers, float))


def compare_figure(folders: Sequence[Path]) -> Figure:
    """Draw errors and wall times of the runs, one line for each."""
    with figure_style():
        return draw_table(compare_table(folders))


def draw_table(table: pd.DataFrame) -> Figure:
    """Draw errors and wall times of ``compare_table``."""
    figure = Figure(figsize=(WIDE, 1.5 + 0.36 * len(table)), layout="constrained")
    errors, times = figure.subplots(1, 2, sharey=True, width_ratios=[3, 2])
    places = np.arange(len(table))
    look = {"fmt": "o", "color": BLUE, "ecolor": SKY, "elinewidth": 4}
    means, stds = table["cv_error_mean"], table["cv_error_std"]
    words = "cv error ± standard deviation over the folds"
    cv = errors.errorbar(means, places, xerr=stds, label=words, **look)
    (tests,) = errors.plot(
        table["test_error"], places, "D", color=VERMILLION, markersize=6, label="test error"
    )
    errors.set(xlabel="error", yticks=places, yticklabels=list(table.index))
    percent_labels(errors.xaxis)
    seconds = table["wall_seconds"]
    times.barh(places, seconds.fillna(0), height=0.5, color=SKY)
    for place, value in zip(places, seconds, strict=True):
        times.annotate(f" {duration(value)}", (np.nan_to_num(value), place), va="center")
    times.set(xlabel="wall time in seconds")
    times.margins(x=0.25)
    times.tick_params(axis="y", length=0)
    errors.invert_yaxis()
    errors.margins(y=0.5 / len(table))
    title_and_key(figure, "Errors and wall times", [cv, tests])
    return figure


def write_comparison(folders: Sequence[Path], page: Path) -> Path:
    """Write a page that sets runs side by side, and its figures beside it.

    Raises
    ------
    pipelines.errors.InputError
        One of the folders is no run folder.
    OSError
        The page cannot be written.
    """
    runs = read_runs(folders)
    sections = [one for one in _sections(runs, page) if one.is_shown]
    # Commands prepare the same data in ways of their own: no print is that of another command.
    about = [(run.record.command, run.record.dataset) for run in runs.values()]
    differ = len({(data.name, data.n_train, data.n_test) for _, data in about}) > 1 or len(
        {(command, data.fingerprint) for command, data in about}
    ) > len({command for command, _ in about})
    return write_html(
        page,
        title=f"{count(len(runs), 'run')} compared",
        warnings=[(DATA_DIFFER, "")] if differ else [],
        sections=sections,
        figures=draw_figures(page.parent, charts_of(sections)),
    )


def _sections(runs: Runs, page: Path) -> list[Section]:
    table = _table(runs)
    caption = (
        "Dots are mean errors of the best candidate over the folds, diamonds errors on the test "
        "samples."
    )
    errors = Chart(page.stem, partial(draw_table, table), caption, wide=True)
    paired = (
        "Runs with the same folds: the error of the best candidate of the first less that of the "
        "second. p is of the corrected resampled t-test (Nadeau and Bengio), p, Holm corrects it "
        "for the number of pairs. The best of a grid is judged on the folds that chose it, so "
        "small differences speak for little."
    )
    frame = table.drop(columns=["command", "n_workers"]).rename_axis("run").reset_index()
    frame.insert(3, "searched", [run.size() for run in runs.values()])
    wrong = [wrong_of(one.record.n_test_errors, one.record.dataset.n_test) for one in runs.values()]
    frame.insert(7, "95 % interval", [words.partition("interval ")[2] for words in wrong])
    formats = dict.fromkeys(("cv_error_mean", "cv_error_std", "test_error"), percent)
    pages = [run.path / REPORT for run in runs.values()]
    links = [
        quote(os.path.relpath(one.resolve(), page.resolve().parent)) if one.is_file() else ""
        for one in pages
    ]
    options = differing_options([run.metadata.get("options", {}) for run in runs.values()])
    differing = pd.DataFrame(
        [[name, *values] for name, values in options], columns=["option", *runs]
    )
    of_pairs = {"difference": "{:+.2%}".format, "standard deviation": "{:+.2%}".format}
    of_pairs |= dict.fromkeys(("t", "p", "p, Holm"), "{:.3f}".format)
    of_runs = Listing("Runs", frame, {**formats, "wall_seconds": duration}, links)
    by_fold = Listing("Fold by fold", paired_table(runs), of_pairs)
    return [
        Section("runs", "Runs", [of_runs, errors]),
        Section("paired", "Fold by fold", [Text(paired), by_fold]),
        Section("options", "Options that differ", [Listing("Options that differ", differing)]),
    ]


def differing_options(options: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[str]]]:
    """Return the options that are not the same in all runs, with their value in each."""
    names = dict.fromkeys(name for each in options for name in each)
    found = []
    for name in names:
        values = [plain(each.get(name)) for each in options]
        if name not in NOT_COMPARED and len(set(values)) > 1:
            found.append(("--" + name.replace("_", "-"), values))
    return found


def paired_table(runs: Runs) -> pd.DataFrame:
    """Return a row for each two runs whose best candidates were scored on the same folds.

    The test is the corrected resampled t-test of Nadeau and Bengio (Machine Learning 52, 2003);
    p is corrected for the number of pairs after Holm (1979).
    """
    rows = []
    for first, second in combinations(runs, 2):
        records = [runs[name].record for name in (first, second)]
        if any(None in (one.dataset.fingerprint, one.options.folds) for one in records):
            continue
        if _folds_of(runs[first]) != _folds_of(runs[second]):
            continue
        errors = [errors_of_best(runs[name]) for name in (first, second)]
        both = pd.concat(errors, axis=1, join="inner").dropna().to_numpy(float)
        if len(both) < 2:
            continue
        differences = both[:, 0] - both[:, 1]
        # Folds share most of what they train on. Runs from before it was recorded had k folds.
        ratio = records[0].ratio or 1.0 / ((records[0].options.folds or 2) - 1)
        mean, _, _, t, p = corrected_t(differences, ratio)
        rows.append((first, second, len(both), mean, float(differences.std()), t, p))
    heads = ["first", "second", "folds", "difference", "standard deviation", "t", "p"]
    table = pd.DataFrame(rows, columns=heads)
    return table.assign(**{"p, Holm": holm(table["p"].tolist())})


def _folds_of(run: Report) -> tuple[Any, ...]:
    """Return what is equal where two runs have the same rows in the same folds."""
    record, options = run.record, run.record.options
    folds = (options.folds, n_splits_of(run.metadata), options.seed, options.cv or "auto")
    code = {} if record.identity is None else record.identity.inputs.get("cv", {})
    return record.command, record.dataset.fingerprint, *folds, tuple(sorted(code.items()))


def errors_of_best(run: Report) -> pd.Series:
    """Return 1 less the score of the best candidate on each fold."""
    cells, best = run.cells, run.record.best
    values: dict[str, Any] = {} if best is None else best.model_dump()
    own = [name for name in run.place if values.get(name) is not None]
    if cells.empty or not own or not {"fold", "score", *own} <= set(cells):
        return pd.Series(dtype=float)
    cells = cells.merge(pd.DataFrame([{name: values[name] for name in own}]), on=own)
    return 1 - cells.set_index("fold")["score"]
