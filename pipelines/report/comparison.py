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
from scipy.stats import friedmanchisquare, studentized_range

from pipelines.report.base import Report
from pipelines.report.charts import title_and_key
from pipelines.report.page import charts_of, draw_figures, kind_of, write_html
from pipelines.report.parts import Cell, Chart, Listing, Section, Table, Text, Value
from pipelines.report.style import (
    BLUE,
    SKY,
    VERMILLION,
    WIDE,
    figure_style,
    one_axes,
    percent_labels,
)
from pipelines.report.validation_page import ValidationReport
from pipelines.report.wording import count, duration, percent, plain, shortened
from pipelines.run_folder.names import REPORT
from pipelines.run_folder.record import read_record
from pipelines.run_folder.statistics import corrected_t, holm, interval

# Where a run is kept and how it is watched says nothing of its result.
NOT_COMPARED = {"results", "resume", "quiet", "dry_run", "dashboard"}
FEWEST = 3  # data sets, and algorithms, that the Friedman test takes
LEVEL = 0.05  # of Nemenyi's test
Runs = Mapping[str, Report[Any]]  # by their names


def read_runs(folders: Sequence[Path]) -> Runs:
    """Return the runs in these folders, named as briefly as tells them apart.

    Raises
    ------
    pipelines.errors.InputError
        One of them is no run folder.
    """
    paths = [Path(folder).resolve() for folder in folders]
    common = Path(os.path.commonpath([path.parent for path in paths]))
    return {
        str(path.relative_to(common)): kind_of(read_record(path)[1]).read(path) for path in paths
    }


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
    cv = errors.errorbar(
        table["cv_error_mean"], places, xerr=table["cv_error_std"], fmt="o", color=BLUE,
        ecolor=SKY, elinewidth=4, label="cv error ± standard deviation over the folds",
    )  # fmt: skip
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
    warning = _data_warning(runs)
    return write_html(
        page,
        title=f"{count(len(runs), 'run')} compared",
        warnings=[(warning, "")] if warning else [],
        sections=sections,
        figures=draw_figures(page.parent, charts_of(sections)),
    )


def _sections(runs: Runs, page: Path) -> list[Section]:
    table = _table(runs)
    alt = "Cross-validation and test error and wall time of each run; the table has the numbers."
    caption = (
        "Dots are mean errors of the best candidate over the folds, diamonds errors on the test "
        "samples."
    )
    errors = Chart(page.stem, partial(draw_table, table), alt, caption, wide=True)
    paired = (
        "Runs with the same folds: the error of the best candidate of the first less that of the "
        "second. p is of the corrected resampled t-test (Nadeau and Bengio), p, Holm corrects it "
        "for the number of pairs. The best of a grid is judged on the folds that chose it, so "
        "small differences speak for little."
    )
    rows = [_row(name, run, page) for name, run in runs.items()]
    heads = ("run", "data", "searched", "cv error", "test error", "wall time", "workers", "status")
    options = differing_options([run.metadata.get("options", {}) for run in runs.values()])
    differing = Table.of(("option", *runs), [[option, *values] for option, values in options])
    return [
        Section("runs", "Runs", [Listing("Runs", Table.of(heads, rows)), errors]),
        Section("ranks", "Ranks over the data sets", [_ranks_chart(runs, page)]),
        Section("paired", "Fold by fold",
                [Text(paired), Listing("Fold by fold", paired_table(runs))]),
        Section("options", "Options that differ", [Listing("Options that differ", differing)]),
    ]  # fmt: skip


def _data_warning(runs: Runs) -> str:
    """Warn if the runs were made on different data, whose errors cannot be compared."""
    sizes: dict[tuple[Any, ...], str] = {}
    prints: dict[str, set[str]] = {}
    for record in (run.record for run in runs.values()):
        about = record.dataset
        rows = "" if about.n_train is None else f", {count(about.n_train, 'row')}"
        sizes[about.name, about.n_train, about.n_test] = f"{about.name or '–'}{rows}"
        # Commands prepare the same data in ways of their own: no print is that of another command.
        prints.setdefault(record.command, set()).add(about.fingerprint or "")
    if len(sizes) < 2 and all(len(found) < 2 for found in prints.values()):
        return ""
    return (
        f"These runs have different data ({'; '.join(sizes.values())}): errors on different data, "
        "or on other rows of the same data, do not show which run is better."
    )


def _row(name: str, run: Report[Any], page: Path) -> list[Value]:
    record, report = run.record, run.path / REPORT
    about, n_wrong = record.dataset, record.n_test_errors
    link = os.path.relpath(report.resolve(), page.resolve().parent) if report.is_file() else ""
    mean, std = (
        (None, None) if record.best is None else (record.best.error_mean, record.best.error_std)
    )
    spread = "" if std is None else f" ± {percent(std)}"
    test = percent(record.test_error)
    if n_wrong is not None and about.n_test is not None:
        test += f" ({interval(n_wrong, about.n_test)})"
    return [
        Cell(name, name, quote(link)),
        f"{about.name or '–'}, {'–' if about.n_train is None else f'{about.n_train:,}'} rows",
        run.size(),
        (mean, percent(mean) + spread),
        (record.test_error, test),
        (record.wall_seconds, duration(record.wall_seconds)),
        (record.cluster.n_workers, str(record.cluster.n_workers)),
        record.status,
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


def paired_table(runs: Runs) -> Table:
    """Return a row for each two runs whose best candidates were scored on the same folds.

    The test is the corrected resampled t-test of Nadeau and Bengio (Machine Learning 52, 2003);
    p is corrected for the number of pairs after Holm (1979).
    """
    found = []
    for first, second in combinations(runs, 2):
        cuts = [_folds(runs[name]) for name in (first, second)]
        if cuts[0] is None or cuts[0] != cuts[1]:
            continue
        errors = [errors_of_best(runs[name]) for name in (first, second)]
        both = pd.concat(errors, axis=1, join="inner").dropna().to_numpy(float)
        if len(both) < 2:
            continue
        differences = both[:, 0] - both[:, 1]
        # Validation rows for each training row: folds share most of what they train on.
        ratio = 1.0 / ((runs[first].record.options.folds or 2) - 1)
        mean, _, _, t, p = corrected_t(differences, ratio)
        found.append((first, second, len(both), mean, float(differences.std()), t, p))
    rows: list[list[Value]] = []
    for (first, second, n, mean, std, t, p), p_holm in zip(
        found, holm([one[-1] for one in found]), strict=True
    ):
        numbers = (
            (mean, f"{100 * mean:+.2f} %"), (std, f"{100 * std:.2f} %"), (t, f"{t:.2f}"),
            (p, f"{p:.3f}"), (p_holm, f"{p_holm:.3f}"),
        )  # fmt: skip
        signed = [(value, text.replace("-", "−")) for value, text in numbers]
        rows.append([first, second, (n, f"{n:,}"), *signed])
    return Table.of(
        ("first", "second", "folds", "difference", "standard deviation", "t", "p", "p, Holm"), rows
    )


def _folds(run: Report[Any]) -> tuple[Any, ...] | None:
    """Return what is equal where two runs have the same rows in the same folds; else None."""
    about, options = run.record.dataset, run.record.options
    if None in (about.fingerprint, options.folds):
        return None
    cv = getattr(options, "cv", None) or "auto"
    return run.record.command, about.fingerprint, options.folds, options.seed, cv


def errors_of_best(run: Report[Any]) -> pd.Series:
    """Return the error, or else 1 less the score, of the best candidate on each fold."""
    cells, best = run.cells, run.record.best
    values: dict[str, Any] = {} if best is None else best.model_dump()
    own = [name for name in run.place if name in cells and name != "fold" and name in values]
    if cells.empty or not own or "fold" not in cells:
        return pd.Series(dtype=float)
    for name in own:
        is_number = pd.api.types.is_numeric_dtype(cells[name])
        same = np.isclose(cells[name], values[name], atol=0) if is_number else None
        cells = cells[cells[name] == values[name] if same is None else same]
    has_error = "error" in cells and cells["error"].notna().any()
    errors = cells["error"] if has_error else 1 - cells["score"]
    return pd.Series(errors.to_numpy(float), index=cells["fold"].to_numpy())


def rank_over_sets(scores: pd.DataFrame) -> tuple[pd.Series, float, float]:
    """Rank algorithms over data sets: 1 is best.

    Demšar (Statistical comparisons of classifiers over multiple data sets, JMLR 7, 2006): the
    Friedman test asks whether ranks differ at all, Nemenyi's which pairs do: those whose mean
    ranks are further apart than the critical difference.

    Parameters
    ----------
    scores : a row for each data set, a column for each algorithm, larger is better; at least
        three of both

    Returns
    -------
    mean rank of each algorithm, the best first; p of the Friedman test; critical difference
    """
    n_sets, n = scores.shape
    means = scores.rank(axis=1, ascending=False).mean().sort_values(kind="stable")
    p = float(friedmanchisquare(*(scores[name] for name in scores)).pvalue)
    quantile = float(studentized_range.ppf(1 - LEVEL, n, np.inf)) / math.sqrt(2)
    return means, p, quantile * math.sqrt(n * (n + 1) / (6 * n_sets))


def _ranks_chart(runs: Runs, page: Path) -> Chart | None:
    """Return the mean ranks of the algorithms that all runs have, each by its best candidate."""
    validated = [run for run in runs.values() if isinstance(run, ValidationReport)]
    if len(validated) < len(runs) or len({run.scoring for run in validated}) != 1:
        return None
    rows = {
        run.record.dataset.fingerprint or str(run.path): {
            one.algorithm: one.score_mean for one in run.record.algorithms or ()
        }
        for run in validated
    }
    scores = pd.DataFrame.from_dict(rows, orient="index").dropna(axis=1)
    if min(scores.shape) < FEWEST:
        return None
    means, p, difference = rank_over_sets(scores)
    words = (
        f"Mean ranks of {len(means)} algorithms over {len(scores)} data sets, the best is "
        f"{means.index[0]} with {means.iloc[0]:.2f}; Friedman p = {p:.3g}, mean ranks less "
        f"less than {difference:.2f} apart are not told apart (Nemenyi, {LEVEL:g})"
    )
    draw = partial(draw_ranks, means, difference)
    caption = f"{words}: those whose bars overlap."
    return Chart(f"{page.stem}-ranks", draw, f"{words}.", caption, wide=True)


def draw_ranks(means: pd.Series, difference: float) -> Figure:
    """Draw mean ranks, each with a bar of the critical difference about it."""
    figure, axes = one_axes(1.2 + 0.28 * len(means), WIDE, xlabel="mean rank over the data sets")
    places = np.arange(len(means))
    axes.errorbar(means, places, xerr=difference / 2, fmt="o", color=BLUE, ecolor=SKY, elinewidth=5)
    axes.set_yticks(places, [shortened(str(one).split(".")[-1], 28) for one in means.index])
    axes.invert_yaxis()
    return figure
