"""Several runs side by side: their answers, what differs in their options, shared cells."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from pipelines.report.data_sets import draw, rank_over_sets, scores_of
from pipelines.report.figures import Drawn, embedded
from pipelines.report.kind import Kind
from pipelines.report.page import kind_of, template
from pipelines.report.style import (
    BLUE,
    SKY,
    VERMILLION,
    WIDE,
    figure_style,
    fitting,
    percent_labels,
)
from pipelines.report.table import Cell, Table, Value
from pipelines.report.validation_page import ValidationRun
from pipelines.report.wording import count, duration, percent, plain
from pipelines.run_folder.names import REPORT
from pipelines.run_folder.reading import Run
from pipelines.run_folder.record import read_record
from pipelines.run_folder.statistics import corrected_t, holm, interval

COLUMNS = ("run", "data", "searched", "cv error", "test error", "wall time", "workers", "status")
# Where a run is kept and how it is watched says nothing of its result.
NOT_COMPARED = {"results", "resume", "quiet", "dry_run", "dashboard"}


@dataclass(frozen=True)
class Compared:
    """A run with the figures that are compared; errors are fractions, NaN where missing."""

    name: str
    kind: Kind
    run: Run[Any]

    @property
    def cv_error(self) -> tuple[float, float]:
        """Return mean and standard deviation over the folds of the best candidate."""
        best = self.run.record.best
        if best is None:
            return math.nan, math.nan
        return _number(best.error_mean), _number(best.error_std)

    @property
    def test_error(self) -> float:
        return _number(self.run.record.test_error)

    @property
    def wall_seconds(self) -> float:
        return _number(self.run.record.wall_seconds)


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def read_runs(folders: Sequence[Path]) -> list[Compared]:
    """Return the runs in these folders, named as briefly as tells them apart.

    Raises
    ------
    pipelines.errors.InputError
        One of them is no run folder.
    """
    paths = [Path(folder).resolve() for folder in folders]
    common = Path(os.path.commonpath([path.parent for path in paths]))
    runs = []
    for path in paths:
        kind = kind_of(read_record(path)[1])
        runs.append(Compared(str(path.relative_to(common)), kind, kind.read(path)))
    return runs


def compare_table(folders: Sequence[Path]) -> pd.DataFrame:
    """Build a table with one row for each run.

    Returns
    -------
    table with the columns ``command``, ``data``, ``n_train``, ``cv_error_mean``,
    ``cv_error_std``, ``test_error`` (fractions), ``wall_seconds``, ``n_workers``,
    ``status``, indexed by the run's name
    """
    rows = {}
    for compared in read_runs(folders):
        record = compared.run.record
        mean, std = compared.cv_error
        rows[compared.name] = {
            "command": record.command,
            "data": record.dataset.name,
            "n_train": record.dataset.n_train,
            "cv_error_mean": mean,
            "cv_error_std": std,
            "test_error": compared.test_error,
            "wall_seconds": compared.wall_seconds,
            "n_workers": record.cluster.n_workers,
            "status": record.status,
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def compare_figure(folders: Sequence[Path]) -> Figure:
    """Draw errors and wall times of the runs, one line for each."""
    with figure_style():
        return _draw(read_runs(folders))


def write_comparison(folders: Sequence[Path], page: Path) -> Path:
    """Write a page that sets runs side by side; it needs no other file.

    Raises
    ------
    pipelines.errors.InputError
        One of the folders is no run folder.
    OSError
        The page cannot be written.
    """
    runs = read_runs(folders)
    text = template("comparison.html").render(
        title=f"{count(len(runs), 'run')} compared",
        figures=_figures(runs),
        rows=Table.of(COLUMNS, [_row(compared, page) for compared in runs]),
        warning=_data_warning(runs),
        paired=paired_table(runs),
        names=[compared.name for compared in runs],
        differing=differing_options(
            [compared.run.metadata.get("options", {}) for compared in runs]
        ),
        shared=_shared_cells(runs),
    )
    page.write_text(text, encoding="utf-8")
    return page


def _test_error(compared: Compared) -> str:
    n_wrong, n_test = compared.run.record.n_test_errors, compared.run.record.dataset.n_test
    if n_wrong is None or n_test is None:
        return percent(compared.test_error)
    return f"{percent(compared.test_error)} ({interval(n_wrong, n_test)})"


def _data_warning(runs: Sequence[Compared]) -> str:
    """Warn if the runs were made on different data, whose errors cannot be compared."""
    sizes: dict[tuple[Any, ...], str] = {}
    prints: dict[str, set[str]] = {}
    for record in (one.run.record for one in runs):
        about = record.dataset
        rows = "" if about.n_train is None else f", {count(about.n_train, 'row')}"
        sizes[about.name, about.n_train, about.n_test] = f"{about.name or '–'}{rows}"
        # Commands prepare the same data in ways of their own: no print is that of another command.
        prints.setdefault(record.command, set()).add(about.fingerprint or "")
    if len(sizes) < 2 and all(len(found) < 2 for found in prints.values()):
        return ""
    return (
        f"These runs have different data ({'; '.join(sizes.values())}): errors on different data, "
        "or on other rows of the same, say nothing of which run is better."
    )


def _row(compared: Compared, page: Path) -> list[Value]:
    record, mean, std = compared.run.record, *compared.cv_error
    name, n_train = record.dataset.name or "–", record.dataset.n_train
    spread = f" ± {percent(std)}" if np.isfinite(std) else ""
    return [
        Cell(compared.name, compared.name, _link(compared.run.path / REPORT, page)),
        f"{name}, {'–' if n_train is None else f'{n_train:,}'} rows",
        compared.kind.size(compared.run),
        (mean, percent(mean) + spread),
        (compared.test_error, _test_error(compared)),
        (compared.wall_seconds, duration(compared.wall_seconds)),
        (_number(record.cluster.n_workers), str(record.cluster.n_workers)),
        record.status,
    ]


def _link(report: Path, page: Path) -> str:
    """Return the page of a run as the comparison reaches it; none where there is none."""
    if not report.is_file():
        return ""
    return quote(os.path.relpath(report.resolve(), page.resolve().parent))


def differing_options(options: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[str]]]:
    """Return the options that are not the same in all runs, with their value in each."""
    names = dict.fromkeys(name for each in options for name in each)
    found = []
    for name in names:
        values = [plain(each.get(name)) for each in options]
        if name not in NOT_COMPARED and len(set(values)) > 1:
            found.append(("--" + name.replace("_", "-"), values))
    return found


def _shared_cells(runs: Sequence[Compared]) -> list[str]:
    """Return a sentence for each run after the first, on the cells both have computed."""
    first, *others = runs
    sentences = []
    for other in others:
        place = list(first.kind.place)
        if other.kind is not first.kind or first.run.cells.empty or other.run.cells.empty:
            continue
        if _split(first) != _split(other):
            sentences.append(
                f"{first.name} and {other.name} have other data or folds: no cell in common."
            )
            continue
        columns = [*place, "n_errors"]
        if not place or not all(set(columns) <= set(one.run.cells) for one in (first, other)):
            continue
        both = first.run.cells[columns].merge(other.run.cells[columns], on=place)
        apart = (both.n_errors_x - both.n_errors_y).abs().dropna()
        if apart.empty:
            sentences.append(f"{first.name} and {other.name} have no cell in common.")
            continue
        sentences.append(
            f"{first.name} and {other.name} have {count(len(apart), 'cell')} in common; the number "
            f"of errors differs in {int((apart > 0).sum())} of them, by at most {int(apart.max())}."
        )
    return sentences


def _split(compared: Compared) -> tuple[Any, ...]:
    """Return the key of a run's splits: equal keys have the same rows in the same folds."""
    record = compared.run.record
    return record.dataset.fingerprint, record.options.folds, record.options.seed


def _draw(runs: Sequence[Compared]) -> Figure:
    figure = Figure(figsize=(fitting(WIDE), 1.5 + 0.36 * len(runs)), layout="constrained")
    errors, times = figure.subplots(1, 2, sharey=True, width_ratios=[3, 2])
    places = np.arange(len(runs))
    means, stds = np.array([compared.cv_error for compared in runs]).T
    errors.errorbar(means, places, xerr=stds, fmt="o", color=BLUE, ecolor=SKY, elinewidth=4,
                    label="cv error ± standard deviation over the folds")  # fmt: skip
    tests = [compared.test_error for compared in runs]
    errors.plot(tests, places, "D", color=VERMILLION, markersize=6, label="test error")
    errors.set(xlabel="error", yticks=places, yticklabels=[compared.name for compared in runs])
    percent_labels(errors.xaxis)
    figure.legend(*errors.get_legend_handles_labels(), loc="outside upper left", ncols=2)
    seconds = [compared.wall_seconds for compared in runs]
    times.barh(places, np.nan_to_num(seconds), height=0.5, color=SKY)
    for place, value in zip(places, seconds, strict=True):
        times.annotate(f" {duration(value)}", (np.nan_to_num(value), place), va="center")
    times.set(xlabel="wall time in seconds")
    times.margins(x=0.25)
    times.tick_params(axis="y", length=0)
    errors.invert_yaxis()
    errors.margins(y=0.5 / len(runs))
    return figure


def _figures(runs: Sequence[Compared]) -> dict[str, Drawn]:
    words = "Cross-validation and test error and wall time of each run; the table has the numbers."
    with figure_style():
        drawn = {"comparison": embedded("comparison", _draw(runs), words)}
        validated = [one.run for one in runs if isinstance(one.run, ValidationRun)]
        scores = scores_of(validated) if len(validated) == len(runs) else None
        if scores is not None:
            figure, description = draw(rank_over_sets(scores))
            drawn["critical_difference"] = embedded("critical_difference", figure, description)
    return drawn


def paired_table(runs: Sequence[Compared]) -> Table:
    """Return a row for each two runs whose best candidates were scored on the same folds.

    The test is the corrected resampled t-test of Nadeau and Bengio (Machine Learning 52, 2003);
    p is corrected for the number of pairs after Holm (1979).
    """
    found = []
    for one, other in combinations(runs, 2):
        if not same_folds(one, other):
            continue
        both = pd.concat(
            [errors_of_best(one), errors_of_best(other)], axis=1, join="inner"
        ).dropna()
        if len(both) < 2:
            continue
        errors = both.to_numpy(float)
        differences = errors[:, 0] - errors[:, 1]
        # Validation rows for each training row: folds share most of what they train on.
        ratio = 1.0 / ((one.run.record.options.folds or 2) - 1)
        mean, _, _, t, p = corrected_t(differences, ratio)
        row = one.name, other.name, len(differences), mean, float(differences.std()), t, p
        found.append(row)
    corrected = holm([row[-1] for row in found])
    rows: list[list[Value]] = []
    for (first, second, n, mean, std, t, p), p_holm in zip(found, corrected, strict=True):
        numbers = (
            (mean, f"{100 * mean:+.2f} %"), (std, f"{100 * std:.2f} %"), (t, f"{t:.2f}"),
            (p, f"{p:.3f}"), (p_holm, f"{p_holm:.3f}"),
        )  # fmt: skip
        signed = [(value, text.replace("-", "−")) for value, text in numbers]
        rows.append([first, second, (n, f"{n:,}"), *signed])
    return Table.of(
        ("first", "second", "folds", "difference", "standard deviation", "t", "p", "p, Holm"), rows
    )


def same_folds(first: Compared, second: Compared) -> bool:
    """Return whether two runs have the same rows, split into folds in the same way."""
    records = first.run.record, second.run.record
    if None in (records[0].dataset.fingerprint, records[0].options.folds):
        return False
    cuts = [
        (
            record.dataset.fingerprint, record.options.folds, record.options.seed,
            getattr(record.options, "cv", None) or "auto",
        )
        for record in records
    ]  # fmt: skip
    return cuts[0] == cuts[1] and len({record.command for record in records}) == 1


def errors_of_best(compared: Compared) -> pd.Series:
    """Return the error, or else 1 less the score, of the best candidate on each fold."""
    cells, best = compared.run.cells, compared.run.record.best
    place = [name for name in compared.kind.place if name in cells and name != "fold"]
    values: dict[str, Any] = {} if best is None else best.model_dump()
    own = [name for name in place if name in values]
    if cells.empty or not own or "fold" not in cells:
        return pd.Series(dtype=float)
    at = np.logical_and.reduce(
        [
            np.isclose(cells[name], values[name], rtol=1e-9, atol=0)
            if pd.api.types.is_numeric_dtype(cells[name])
            else (cells[name] == values[name]).to_numpy()
            for name in own
        ]
    )
    chosen = cells[at]
    has_error = "error" in chosen and chosen["error"].notna().any()
    errors = chosen["error"] if has_error else 1 - chosen["score"]
    return pd.Series(errors.to_numpy(float), index=chosen["fold"].to_numpy())
