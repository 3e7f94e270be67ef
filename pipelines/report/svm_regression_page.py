"""The page of a run of ``svm_grid`` on a target of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from pipelines.report.charts import title_and_key
from pipelines.report.figures import Made, of_any_run
from pipelines.report.kind import Answer, Chart, Kind, Listing, Part, Section, Text
from pipelines.report.style import VERMILLION, log10_labels, one_axes
from pipelines.report.svm_page import LOG_C, LOG_GAMMA, SvmRun, grid_warnings, nearest
from pipelines.report.table import MOST_ROWS, Table, Value, number_cell
from pipelines.report.validation_page import residuals
from pipelines.report.wording import count, significant
from pipelines.run_folder import names, ranking
from pipelines.run_folder.columns import Residual, SvmCandidate
from pipelines.run_folder.reading import read_run
from pipelines.run_folder.records.svm_grid import BestOfSvm
from pipelines.run_folder.tables import read_table

PARAMETERS = ("C", "gamma", "epsilon")


@dataclass(frozen=True)
class RegressionRun(SvmRun):
    """A run over C, gamma and epsilon; ``residuals`` are those of the test samples, or None."""

    residuals: pd.DataFrame | None = None

    @property
    def best(self) -> BestOfSvm | None:
        """The best candidate, as the run recorded it."""
        return self.record.best

    @property
    def scoring(self) -> str:
        """The scoring by which the best candidate was chosen."""
        return str(self.record.options.scoring or "r2")


def read_regression_run(folder: Path) -> RegressionRun:
    """Read the folder of such a run; raises what ``read_run`` raises."""
    run = read_run(
        folder, candidate=SvmCandidate, place=(*PARAMETERS, "fold"),
        candidates_of=lambda cells, n_folds: ranking.candidates_of(cells, PARAMETERS, n_folds)
        if len(cells) else cells,
    )  # fmt: skip
    return RegressionRun(**vars(run), residuals=read_table(run.path / names.RESIDUALS, Residual))


def score_map(candidates: pd.DataFrame, scoring: str) -> Figure:
    """Draw the mean score over log10 C and log10 gamma at the best epsilon; the best framed.

    Parameters
    ----------
    candidates : DataFrame with C, gamma and score_mean, best first
    """
    by_place = candidates.groupby(["gamma", "C"])["score_mean"].max().unstack()
    log_C, log_gamma = np.log10(by_place.columns.to_numpy()), np.log10(by_place.index.to_numpy())
    figure, axes = one_axes(4.5, xlabel=LOG_C, ylabel=LOG_GAMMA)
    means = by_place.to_numpy(float)
    # A score far below 0 says no more than 0: such a candidate predicts worse than the mean does.
    finite = means[np.isfinite(means)]
    low = max(0.0, finite.min()) if scoring == "r2" and finite.max() > 0 else finite.min()
    mesh = axes.pcolormesh(
        log_C, log_gamma, np.ma.masked_invalid(means), cmap="viridis", vmin=low, shading="nearest"
    )
    figure.colorbar(mesh, ax=axes, pad=0.02, fraction=0.06, aspect=28).outline.set_visible(False)
    best = candidates.iloc[0]
    row, column = (
        int(nearest(10.0**values, [best[name]])[0])
        for values, name in ((log_gamma, "gamma"), (log_C, "C"))
    )
    width, height = (np.diff(one).min() if len(one) > 1 else 1.0 for one in (log_C, log_gamma))
    corner = log_C[column] - width / 2, log_gamma[row] - height / 2
    axes.add_patch(Rectangle(corner, width, height, fill=False, edgecolor=VERMILLION, lw=2.2))
    axes.spines[:].set_visible(False)
    log10_labels(axes.xaxis, log_C)
    log10_labels(axes.yaxis, log_gamma)
    found = ", ".join(f"{name} = {significant(best[name])}" for name in PARAMETERS)
    label = f"best: {found}, {scoring} {best['score_mean']:.4f}"
    key = [Patch(facecolor="none", edgecolor=VERMILLION, lw=2, label=label)]
    title_and_key(figure, f"Mean {scoring}", key)
    return figure


def _scored(run: RegressionRun) -> pd.DataFrame:
    there = "score_mean" in run.candidates
    return run.candidates[run.candidates["score_mean"].notna()] if there else pd.DataFrame()


def _score_map(run: RegressionRun) -> Made:
    scored = _scored(run)
    if scored.empty:
        return None
    best = scored.iloc[0]
    alt = (
        f"Map of the mean {run.scoring} of {count(len(scored), 'candidate')}; the best has "
        f"{best['score_mean']:.4f}."
    )
    return score_map(scored, run.scoring), alt


def _residuals(run: RegressionRun) -> Made:
    if run.residuals is None or run.residuals.empty:
        return None
    true, predicted = (run.residuals[name].to_numpy(float) for name in ("true", "predicted"))
    alt = (
        f"Predicted against true numbers of {count(len(true), 'test sample')}, and the residuals, "
        f"whose mean size is {significant(float(np.abs(true - predicted).mean()))}."
    )
    return residuals(true, predicted), alt


def _size(run: RegressionRun) -> str:
    options = run.record.options
    axes = {"C": options.n_c, "gamma": options.n_gamma, "epsilon": options.n_epsilon}
    return " × ".join(f"{n} {name}" for name, n in axes.items() if n) or "A search"


def _answers(run: RegressionRun) -> list[Answer]:
    record, found = run.record, []
    if (best := run.best) is not None:
        for name in PARAMETERS:
            if (value := getattr(best, name)) is not None:
                note = "in standard deviations of the target" if name == "epsilon" else ""
                found.append(Answer(f"best {name}", significant(value), note))
        if best.score_mean is not None:
            note = f"± {best.score_std or 0:.4f}, standard deviation of {run.n_folds} folds"
            found.append(Answer(f"cv {run.scoring}", f"{best.score_mean:.4f}", note))
    if record.nested is not None:
        note = f"± {record.nested.score_std:.4f} over {record.nested.n_outer} outer folds"
        found.append(Answer(f"nested {run.scoring}", f"{record.nested.score_mean:.4f}", note))
    for name, score in record.test_scores.items():
        if score is not None:
            shown = f"{score:.4f}" if name == "r2" else significant(abs(score))
            words = name.removeprefix("neg_").replace("_", " ")
            found.append(Answer(f"test {words}", shown, f"{record.dataset.n_test:,} test samples"))
    return found


def _answer(run: RegressionRun) -> list[Part]:
    return [
        *([] if len(_scored(run)) else [Text("No candidate has a score yet.")]),
        Chart(
            "score_map",
            f"Mean {run.scoring} of every C and gamma, each by its best epsilon; the best "
            "candidate is framed in orange.",
        ),
    ]


def _candidates(run: RegressionRun) -> Table:
    rows: list[list[Value]] = []
    for row in run.candidates.head(MOST_ROWS).to_dict("records"):
        mean, std = float(row["score_mean"]), float(row["score_std"])
        rows.append(
            [
                (row["rank"], f"{row['rank']:,.0f}"),
                *(float(row[name]) for name in PARAMETERS),
                number_cell(mean, f"{mean:.4f}", missing="failed"),
                (std, f"{std:.4f}"),
                (row["n_ok"], f"{row['n_ok']:.0f}"),
            ]
        )
    return Table.of(
        ("rank", *PARAMETERS, f"cv {run.scoring}", "standard deviation", "folds with a score"), rows
    )


def _sections(run: RegressionRun) -> list[Section]:
    table, n = _candidates(run), len(run.candidates)
    which = f"The first {MOST_ROWS:,} of {n:,}" if len(table) < n else f"All {n:,}"
    note = (
        f"{which}, best first, by the mean {run.scoring} over {run.n_folds} folds. Targets are "
        "standardised on the training rows of each fold: epsilon and C are in units of their "
        "standard deviation."
    )
    paper = "On paper: the first 30. All of them are in candidates.parquet."
    parts: list[Part] = [
        Text(note), Listing("Candidates", table), Text(paper, style="paper"),
    ]  # fmt: skip
    points = "Predicted against true numbers by the best candidate, and the residuals."
    return [
        Section("test", "Test samples", [Chart("residuals", points, wide=True)]),
        Section("candidates", "Candidates", parts),
    ]


def _cell_name(cell: Mapping[str, Any]) -> str:
    found = ", ".join(f"{name} = {significant(cell[name])}" for name in PARAMETERS if name in cell)
    return f"{found}, fold {cell['fold']:.0f}"


SVM_REGRESSION = Kind(
    title="SVM regression grid search",
    read=read_regression_run,
    figures={
        "score_map": _score_map, "residuals": _residuals, **of_any_run(colour_by="gamma"),
    },
    size=_size,
    sizes=("n_c", "n_gamma", "n_epsilon", "folds"),
    answers=_answers,
    answer=_answer,
    sections=_sections,
    warnings=grid_warnings,
    place=(*PARAMETERS, "fold"),
    cell_name=_cell_name,
)  # fmt: skip
