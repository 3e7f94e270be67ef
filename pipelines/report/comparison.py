"""Comparison of several runs: scores, options that differ, and tests of the difference."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from pipelines.errors import InputError
from pipelines.report.charts import title_and_key
from pipelines.report.page import charts_of, draw_figures, read_run, write_html
from pipelines.report.parts import Chart, Listing, Part, Section, Text
from pipelines.report.run_table import RunRow, run_row, score_columns
from pipelines.report.style import BLUE, SKY, VERMILLION, WIDE, figure_style, percent_labels
from pipelines.report.verdict import Runs, measure_of_best, paired_table, verdict
from pipelines.report.wording import count, duration, typed_value, wrong_of
from pipelines.run_folder.names import REPORT
from pipelines.run_folder.record import Record, read_record

# Options that do not change a result: where a run is kept and how it is watched.
NOT_COMPARED = {"results", "resume", "quiet", "dry_run", "dashboard"}


def distinct_paths(folders: Sequence[Path]) -> list[Path]:
    """Absolute paths of run folders.

    Raises
    ------
    pipelines.errors.InputError
        A run is named twice.
    """
    paths = [Path(folder).resolve() for folder in folders]
    for path in paths:
        if paths.count(path) > 1:
            raise InputError(f"RUN must be different run folders, got {path} twice; name it once")
    return paths


def paths_by_name(folders: Sequence[Path]) -> dict[str, Path]:
    """Paths of run folders by name: the part of the path below their common parent."""
    paths = distinct_paths(folders)
    common = Path(os.path.commonpath([path.parent for path in paths]))
    return {str(path.relative_to(common)): path for path in paths}


def compare_table(folders: Sequence[Path]) -> pd.DataFrame:
    """Compare runs in a table with one row for each run.

    Parameters
    ----------
    folders : sequence of path
        Run folders, all different.

    Returns
    -------
    DataFrame
        Indexed by the name of the run, with the columns ``command``, ``data``, ``n_train``,
        ``measure`` (what the scores are: ``error``, ``r2``, ...), ``cv_error_mean``,
        ``cv_error_std``, ``cv_score_mean``, ``cv_score_std`` (scores in a measure other than the
        error), ``test_error``, ``test_score``, ``wall_seconds``, ``n_workers`` and ``status``.
        Errors are fractions.

    Raises
    ------
    pipelines.errors.InputError
        One of the folders is not a run folder, or is named twice.

    Examples
    --------
    >>> import json, tempfile
    >>> from pathlib import Path
    >>> from pipelines import compare_table
    >>> root = Path(tempfile.mkdtemp())
    >>> for name, error in (("first", 0.03), ("second", 0.01)):
    ...     (root / name).mkdir()
    ...     record = {"command": "svm_grid", "status": "finished", "test_error": error}
    ...     _ = (root / name / "run.json").write_text(json.dumps(record))
    >>> compare_table([root / "first", root / "second"])["test_error"].to_dict()
    {'first': 0.03, 'second': 0.01}
    """
    paths = paths_by_name(folders)
    return _table([run_row(n, path, *read_record(path, Record)) for n, path in paths.items()])


def _table(rows: Sequence[RunRow]) -> pd.DataFrame:
    table = pd.DataFrame(
        {
            "command": [row.command.replace("-", "_") for row in rows],
            "data": [row.data or None for row in rows],
            "n_train": [row.n_train for row in rows],
            "measure": [row.measure for row in rows],
            "cv_error_mean": [row.cv_error for row in rows],
            "cv_error_std": [None if row.cv_error is None else row.cv_std for row in rows],
            "cv_score_mean": [row.cv_score for row in rows],
            "cv_score_std": [None if row.cv_score is None else row.cv_std for row in rows],
            "test_error": [row.test_error for row in rows],
            "test_score": [row.test_score for row in rows],
            "wall_seconds": [row.seconds for row in rows],
            "n_workers": [row.workers for row in rows],
            "status": [row.status for row in rows],
        },
        index=[row.name for row in rows],
    )
    numbers = [name for name in table.columns if name.startswith(("cv_", "test_", "wall_"))]
    return table.astype(dict.fromkeys(numbers, float))


def compare_figure(folders: Sequence[Path]) -> Figure:
    """Compare runs in a figure: scores and wall times, one line for each run.

    Parameters
    ----------
    folders : sequence of path
        Run folders, all different.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    pipelines.errors.InputError
        One of the folders is not a run folder, or is named twice.

    Examples
    --------
    >>> import json, tempfile
    >>> from pathlib import Path
    >>> from pipelines import compare_figure
    >>> root = Path(tempfile.mkdtemp())
    >>> for name, error in (("first", 0.03), ("second", 0.01)):
    ...     (root / name).mkdir()
    ...     record = {"command": "svm_grid", "status": "finished", "test_error": error}
    ...     _ = (root / name / "run.json").write_text(json.dumps(record))
    >>> figure = compare_figure([root / "first", root / "second"])
    >>> [axes.get_xlabel() for axes in figure.axes]
    ['error', 'wall time in seconds']
    """
    with figure_style():
        return draw_table(compare_table(folders))


def draw_table(table: pd.DataFrame) -> Figure:
    """Draw the rows of ``compare_table``: a panel of scores for each measure, and one of times."""
    measures = [name for name in dict.fromkeys(["error", *table["measure"]]) if name]
    panels = [panel for name in measures if (panel := _scores(table, name)).notna().any(axis=None)]
    figure = Figure(figsize=(WIDE, 1.5 + 0.36 * len(table)), layout="constrained")
    ratios = [3] * len(panels) + [2]
    *axes, times = figure.subplots(1, len(ratios), sharey=True, width_ratios=ratios, squeeze=False)[
        0
    ]
    positions = np.arange(len(table))
    look = {"fmt": "o", "color": BLUE, "ecolor": SKY, "elinewidth": 4}
    words = "cross-validated ± standard deviation over the folds"
    handles: dict[str, Any] = {}
    for panel, scores in zip(axes, panels, strict=True):
        cv = panel.errorbar(scores["cv"], positions, xerr=scores["std"], label=words, **look)
        (tests,) = panel.plot(
            scores["test"], positions, "D", color=VERMILLION, markersize=6, label="test samples"
        )
        handles |= {words: cv, "test": tests}
        panel.set(xlabel=scores.attrs["measure"])
        if scores.attrs["measure"] == "error":
            percent_labels(panel.xaxis)
        if len(panels) > 1:
            panel.locator_params(axis="x", nbins=3)
        panel.margins(y=0.5 / len(table))
    (axes[0] if axes else times).set(yticks=positions, yticklabels=list(table.index))
    seconds = table["wall_seconds"]
    times.barh(positions, seconds.fillna(0), height=0.5, color=SKY)
    for position, value in zip(positions, seconds, strict=True):
        times.annotate(f" {duration(value)}", (np.nan_to_num(value), position), va="center")
    times.set(xlabel="wall time in seconds")
    times.margins(x=0.25)
    for panel in [*axes, times][1:]:
        panel.tick_params(axis="y", length=0)
    times.invert_yaxis()
    title_and_key(figure, "Scores and wall times", list(handles.values()))
    return figure


def _scores(table: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Scores of all runs in one measure, in the columns ``cv``, ``std`` and ``test``."""
    score_name, has_measure = (
        "error" if measure == "error" else "score",
        table["measure"] == measure,
    )
    names = {
        f"cv_{score_name}_mean": "cv",
        f"cv_{score_name}_std": "std",
        f"test_{score_name}": "test",
    }
    scores = table[list(names)].rename(columns=names)
    # A run that chose by another score also has an error on the test samples.
    scores = scores if score_name == "error" else scores.where(has_measure)
    scores.attrs["measure"] = measure
    return scores


def write_comparison(folders: Sequence[Path], page: Path) -> Path:
    """Compare runs on a page: a verdict, their scores, paired tests and options that differ.

    Parameters
    ----------
    folders : sequence of path
        Run folders, all different.
    page : path
        HTML file to write; its figures are put into the same folder.

    Returns
    -------
    pathlib.Path
        The page.

    Raises
    ------
    pipelines.errors.InputError
        One of the folders is not a run folder, or is named twice.
    OSError
        The page cannot be written.

    Examples
    --------
    >>> import json, tempfile
    >>> from pathlib import Path
    >>> from pipelines import write_comparison
    >>> root = Path(tempfile.mkdtemp())
    >>> for name, error in (("first", 0.03), ("second", 0.01)):
    ...     (root / name).mkdir()
    ...     record = {"command": "svm_grid", "status": "finished", "test_error": error}
    ...     _ = (root / name / "run.json").write_text(json.dumps(record))
    >>> page = write_comparison([root / "first", root / "second"], root / "comparison.html")
    >>> page.name, page.is_file()
    ('comparison.html', True)
    """
    runs = {name: read_run(path) for name, path in paths_by_name(folders).items()}
    sections = [section for section in _sections(runs, page) if section.is_shown]
    return write_html(
        page,
        title=f"{count(len(runs), 'run')} compared",
        conclusion=verdict(runs),
        sections=sections,
        figures=draw_figures(page.parent, charts_of(sections)),
    )


def _sections(runs: Runs, page: Path) -> list[Section]:
    rows = [run_row(name, run.path, run.metadata, run.record) for name, run in runs.items()]
    caption = (
        "Dots are means of the best candidate over the folds, diamonds are of the test samples; "
        "each measure has a panel of its own."
    )
    scores = Chart(page.stem, partial(draw_table, _table(rows)), caption, wide=True)
    options = differing_options([run.metadata.get("options", {}) for run in runs.values()])
    differing = pd.DataFrame(
        [[name, *values] for name, values in options], columns=["option", *runs]
    )
    listing = Listing("Options that differ", differing, as_named=list(runs))
    return [
        Section("runs", "Runs", [_listing(runs, rows, page), scores]),
        Section("paired", "Fold by fold", _pairs(runs)),
        Section("options", "Options that differ", [listing]),
    ]


def _listing(runs: Runs, rows: Sequence[RunRow], page: Path) -> Listing:
    """The table of the runs: data, scores, time and status, with links to their pages."""
    columns, formats = score_columns(rows, are_spread=True)
    records = [run.record for run in runs.values()]
    wrong = [wrong_of(record.n_test_errors, record.dataset.n_test) for record in records]
    frame = pd.DataFrame(
        {
            "run": list(runs),
            "command": [row.command for row in rows],
            "data": [row.data or None for row in rows],
            **columns,
            "time": pd.Series([row.seconds for row in rows], dtype=float),
            "status": [row.status for row in rows],
            "searched": [run.size() for run in runs.values()],
            "training samples": pd.array([row.n_train for row in rows], "Int64"),
        }
    )
    if any(wrong):
        intervals = [words.partition("interval ")[2] or None for words in wrong]
        frame.insert(list(frame).index("test error") + 1, "95 % interval", intervals)
    pages = [run.path / REPORT for run in runs.values()]
    links = [
        quote(os.path.relpath(file.resolve(), page.resolve().parent)) if file.is_file() else ""
        for file in pages
    ]
    return Listing("Runs", frame, {**formats, "time": duration}, links)


def _pairs(runs: Runs) -> list[Part | None]:
    """Paired tests of runs with the same folds, in one table for each measure."""
    parts: list[Part | None] = []
    for name, pairs in paired_table(runs).groupby("measure", sort=False):
        measure = measure_of_best(runs[pairs["first"].iloc[0]])
        difference = f"difference in {name} (first − second)"
        formats: dict[str, Callable[[float], str]] = dict.fromkeys(
            ("t", "p", "p, Holm"), "{:.3f}".format
        )
        formats[difference] = partial(measure.text, sign="+")
        formats["standard deviation"] = measure.text
        frame = pairs.drop(columns="measure").rename(columns={"difference": difference})
        parts.append(Listing(f"Fold by fold: {name}", frame, formats))
    text = Text(
        "Runs with the same folds, in pairs: the difference between their best candidates, fold by "
        "fold. p is of the corrected resampled t-test (Nadeau and Bengio), Holm's p is corrected "
        "for the number of pairs. A best candidate is judged on the folds that chose it, so its "
        "score is a little too good, and small differences may be chance."
    )
    return [text, *parts]


def differing_options(options: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[str]]]:
    """Options whose value is not the same in all runs, as flags, with the value in each run."""
    names = dict.fromkeys(name for run_options in options for name in run_options)
    differences = []
    for name in names:
        values = [typed_value(run_options.get(name)) for run_options in options]
        if name not in NOT_COMPARED and len(set(values)) > 1:
            differences.append(("--" + name.replace("_", "-"), values))
    return differences
