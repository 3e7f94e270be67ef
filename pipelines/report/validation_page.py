"""The page of a run of ``cross_validate``: its tables, its figures, its answers, its words."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipelines.report.charts import BOX_PLOT, add_boxes, grid_lines
from pipelines.report.classification import test_section
from pipelines.report.figures import Made, of_any_run
from pipelines.report.kind import Answer, Chart, Columns, Kind, Listing, Part, Section, Text
from pipelines.report.style import (
    BLUE,
    GREY,
    INK,
    NARROW,
    SKY,
    VERMILLION,
    WIDE,
    fitting,
    is_phone,
    one_axes,
    powers_of_ten,
)
from pipelines.report.table import AS_GOOD, MOST_ROWS, Cell, Table, Value, number_cell
from pipelines.report.wording import count, describe_ties, shortened, significant, wrong_of
from pipelines.run_folder import names
from pipelines.run_folder.columns import (
    VALIDATION_CELL,
    ComparedPair,
    Residual,
    SearchRow,
    ValidatedCandidate,
)
from pipelines.run_folder.ranking import candidates_of
from pipelines.run_folder.reading import Run, read_run
from pipelines.run_folder.records.cross_validate import ValidationRecord
from pipelines.run_folder.statistics import WithinOneStandardError, within_one_standard_error
from pipelines.run_folder.tables import read_table


@dataclass(frozen=True)
class ValidationRun(Run[ValidationRecord]):
    """A run of ``cross_validate``.

    ``pairs`` compares algorithms, ``curve`` has the rows of the learning curve, ``residuals``
    the test samples of a regression; None where there is no such table.
    """

    pairs: pd.DataFrame | None
    curve: pd.DataFrame | None
    residuals: pd.DataFrame | None

    @property
    def scoring(self) -> str:
        """The scoring by which the best candidate is chosen."""
        return (self.record.scoring or ["score"])[0]

    @property
    def best(self) -> dict[str, int]:
        """The best candidate of every algorithm, the best algorithm first."""
        if "algorithm" not in self.candidates or self.candidates.empty:
            return {}
        first = self.candidates[self.candidates["score_mean"].notna()].drop_duplicates("algorithm")
        return dict(zip(first["algorithm"], first["candidate"].astype(int), strict=True))


def read_validation_run(folder: Path) -> ValidationRun:
    """Read the folder of a run of ``cross_validate``; raises what ``read_run`` raises."""
    run = read_run(
        folder, candidate=ValidatedCandidate, place=VALIDATION_CELL, candidates_of=_candidates_of
    )
    return ValidationRun(
        **vars(run),
        pairs=read_table(run.path / names.COMPARISON, ComparedPair),
        curve=read_table(run.path / names.LEARNING_CURVE, SearchRow),
        residuals=read_table(run.path / names.RESIDUALS, Residual),
    )


def _candidates_of(cells: pd.DataFrame, n_folds: int) -> pd.DataFrame:
    """Return candidates of a run that ended before it wrote their table."""
    if cells.empty:
        return cells
    ranked = candidates_of(cells, ["candidate"], n_folds)
    about = cells.groupby("candidate")[["algorithm", "params"]].first()
    seconds = cells.groupby("candidate")[["fit_seconds", "score_seconds"]].mean()
    return ranked.join(about, on="candidate").join(seconds, on="candidate")


LINES = (VERMILLION, BLUE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", INK, GREY)
MARKS = "osD^vPX*"
MOST_CURVES = 9


def algorithm_boxes(scores: Mapping[str, np.ndarray], scoring: str) -> Figure:
    """Draw a box of scores over the folds for the best candidate of each algorithm, best first.

    Parameters
    ----------
    scores : of each algorithm, float array of shape (n_folds,)
    """
    figure, axes = one_axes(3.8, WIDE if len(scores) > 5 else NARROW, ylabel=scoring)
    boxes = [(float(i), values, i == 0) for i, values in enumerate(scores.values())]
    add_boxes(axes, boxes, 0.3)
    for place, values, _ in boxes:
        axes.plot(np.full(len(values), place), values, "o", color=INK, markersize=3, alpha=0.6)
    axes.set_xticks(range(len(scores)), [shortened(name.split(".")[-1], 18) for name in scores])
    axes.set_xlim(-0.6, len(scores) - 0.4)
    if len(scores) > 4:
        axes.tick_params(axis="x", rotation=20)
    grid_lines(axes)
    return figure


def validation_curves(curves: Sequence[tuple[str, str, pd.DataFrame]], scoring: str) -> Figure:
    """Draw the score against each parameter that has several values, the others at their best.

    Parameters
    ----------
    curves : algorithm, parameter, table of ``value``, ``score_mean``, ``score_std``
    """
    n = min(len(curves), MOST_CURVES)
    n_columns = 1 if is_phone() else min(3, n)
    n_rows = math.ceil(n / n_columns)
    figure = Figure(
        figsize=(fitting(WIDE if n > 1 else NARROW), 0.6 + 2.6 * n_rows), layout="constrained"
    )
    grid = figure.subplots(n_rows, n_columns, squeeze=False)
    for axes, (algorithm, parameter, table) in zip(grid.flat, curves[:n], strict=False):
        _curve(axes, table)
        axes.set(title=shortened(algorithm.split(".")[-1], 28), xlabel=parameter, ylabel=scoring)
    for axes in grid.flat[n:]:
        axes.set_axis_off()
    return figure


def _curve(axes: Axes, table: pd.DataFrame) -> None:
    mean, std = table["score_mean"].to_numpy(), table["score_std"].to_numpy()
    values = pd.to_numeric(table["value"], errors="coerce").to_numpy(float)
    if np.isfinite(values).all():
        order = np.argsort(values)
        values, mean, std = values[order], mean[order], std[order]
        if values[0] > 0 and values[-1] >= 20 * values[0]:
            axes.set_xscale("log")
        axes.fill_between(values, mean - std, mean + std, color=SKY, alpha=0.5, lw=0)
        axes.plot(values, mean, marker="." if len(values) < 40 else None, color=BLUE)
        best = int(np.nanargmax(mean))
        axes.plot(values[best], mean[best], "o", color=VERMILLION, zorder=3)
        if axes.get_xscale() == "log":
            powers_of_ten(axes.xaxis)
    else:
        places = np.arange(len(mean))
        axes.errorbar(places, mean, yerr=std, fmt="o", color=BLUE, ecolor=SKY, elinewidth=4)
        axes.set_xticks(places, [shortened(str(value), 10) for value in table["value"]])
    grid_lines(axes)


def learning_curve(table: pd.DataFrame, scoring: str) -> Figure:
    """Draw the score against the number of training rows, a line for each algorithm.

    Parameters
    ----------
    table : ``algorithm``, ``n_train``, ``score_mean``, ``score_std``
    """
    figure, axes = one_axes(3.8, xlabel="training rows", ylabel=scoring)
    for i, (name, line) in enumerate(table.groupby("algorithm", sort=False)):
        colour, line = LINES[i % len(LINES)], line.sort_values("n_train")
        axes.fill_between(
            line["n_train"], line["score_mean"] - line["score_std"],
            line["score_mean"] + line["score_std"], color=colour, alpha=0.12, lw=0,
        )  # fmt: skip
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.plot(
            line["n_train"], line["score_mean"], marker=MARKS[i % len(MARKS)], markersize=5,
            color=colour, label=shortened(str(name).split(".")[-1], 24),
        )  # fmt: skip
    grid_lines(axes)
    axes.legend(loc="lower right")
    return figure


def time_against_score(table: pd.DataFrame, scoring: str) -> Figure:
    """Draw every candidate: seconds of a fit against its score; the best is orange.

    Parameters
    ----------
    table : ``algorithm``, ``fit_seconds``, ``score_mean``, best first
    """
    figure, axes = one_axes(
        3.8, xlabel="seconds of a fit, what is shared dealt out", ylabel=scoring, xscale="log"
    )
    for i, (name, some) in enumerate(table.groupby("algorithm", sort=False)):
        axes.plot(
            some["fit_seconds"].clip(lower=1e-5), some["score_mean"], MARKS[i % len(MARKS)],
            color=LINES[1:][i % (len(LINES) - 1)], alpha=0.75, markersize=6,
            label=shortened(str(name).split(".")[-1], 24),
        )  # fmt: skip
    powers_of_ten(axes.xaxis)
    first = table.iloc[0]
    axes.plot(
        max(first["fit_seconds"], 1e-5), first["score_mean"], "o", markersize=13,
        markerfacecolor="none", markeredgecolor=VERMILLION, markeredgewidth=2,
    )  # fmt: skip
    grid_lines(axes)
    figure.legend(loc="outside upper left", ncols=1 if is_phone() else 3)
    return figure


def residuals(true: np.ndarray, predicted: np.ndarray) -> Figure:
    """Draw predicted against true numbers of the test samples, and what is between them.

    Parameters
    ----------
    true, predicted : float arrays of shape (n_test,)
    """
    stacked = is_phone()
    figure = Figure(figsize=(fitting(WIDE), 6.4 if stacked else 3.8), layout="constrained")
    left, right = figure.subplots(2, 1) if stacked else figure.subplots(1, 2)
    low, high = min(true.min(), predicted.min()), max(true.max(), predicted.max())
    left.plot([low, high], [low, high], color=GREY, lw=1)
    left.plot(true, predicted, ".", color=BLUE, alpha=0.5)
    left.set(xlabel="true", ylabel="predicted")
    right.axhline(0, color=GREY, lw=1)
    right.plot(predicted, true - predicted, ".", color=BLUE, alpha=0.5)
    right.set(xlabel="predicted", ylabel="true − predicted")
    for axes in (left, right):
        grid_lines(axes)
    return figure


def _scores_of_best(run: ValidationRun) -> dict[str, np.ndarray]:
    scores = {}
    for name, candidate in run.best.items():
        found = run.cells[run.cells["candidate"] == candidate]["score"].dropna().to_numpy(float)
        if len(found):
            scores[name] = found
    return scores


def _boxes(run: ValidationRun) -> Made:
    scores = _scores_of_best(run)
    if not scores:
        return None
    first = next(iter(scores))
    alt = (
        f"A box of {run.scoring} over the folds for the best candidate of each of "
        f"{count(len(scores), 'algorithm')}; the best is {first} with a mean of "
        f"{scores[first].mean():.4f}."
    )
    return algorithm_boxes(scores, run.scoring), alt


def _curves(run: ValidationRun) -> Made:
    curves = [
        (name, parameter, table)
        for name, candidate in run.best.items()
        for parameter, table in _curves_of(run, name, candidate).items()
    ]
    if not curves:
        return None
    alt = f"The {run.scoring} against " + "; ".join(
        f"{parameter} of {name}" for name, parameter, _ in curves
    )
    return validation_curves(curves, run.scoring), alt + "."


def _curves_of(run: ValidationRun, algorithm: str, best: int) -> dict[str, pd.DataFrame]:
    """Return, for each parameter, the candidates that differ from the best in it alone."""
    some = run.candidates[
        (run.candidates["algorithm"] == algorithm) & run.candidates["score_mean"].notna()
    ]
    params = {int(row["candidate"]): json.loads(row["params"]) for row in some.to_dict("records")}
    if best not in params:
        return {}
    curves = {}
    for parameter in params[best]:
        others = {name: value for name, value in params[best].items() if name != parameter}
        along = [
            candidate for candidate, one in params.items()
            if {name: value for name, value in one.items() if name != parameter} == others
        ]  # fmt: skip
        if len(along) > 1:
            table = some[some["candidate"].isin(along)].assign(
                value=[params[int(c)].get(parameter) for c in some["candidate"] if c in along]
            )
            curves[parameter] = table
    return curves


def _learning(run: ValidationRun) -> Made:
    if run.curve is None or run.curve.empty:
        return None
    whole = run.cells[run.cells["candidate"].isin(run.best.values())]
    rows = pd.concat([run.curve, whole], ignore_index=True)
    table = rows.groupby(["algorithm", "share"], as_index=False).agg(
        n_train=("n_train", "mean"), score_mean=("score", "mean"),
        score_std=("score", lambda scores: scores.std(ddof=0)),
    )  # fmt: skip
    order = {name: place for place, name in enumerate(run.best)}
    table = table.sort_values("algorithm", key=lambda names: names.map(order), kind="stable")
    alt = (
        f"The {run.scoring} against the number of training rows, from "
        f"{table['n_train'].min():,.0f} to {table['n_train'].max():,.0f}, for "
        f"{count(len(order), 'algorithm')}."
    )
    return learning_curve(table, run.scoring), alt


def _cost(run: ValidationRun) -> Made:
    if not {"fit_seconds", "score_mean"} <= set(run.candidates):
        return None
    table = run.candidates[
        run.candidates["score_mean"].notna() & run.candidates["fit_seconds"].notna()
    ]
    if len(table) < 2:
        return None
    first = table.iloc[0]
    alt = (
        f"Seconds of a fit against {run.scoring} for {count(len(table), 'candidate')}; the best "
        f"takes {significant(float(first['fit_seconds']))} s."
    )
    return time_against_score(table, run.scoring), alt


def _residuals(run: ValidationRun) -> Made:
    if run.residuals is None or run.residuals.empty:
        return None
    true, predicted = (run.residuals[name].to_numpy(float) for name in ("true", "predicted"))
    alt = (
        f"Predicted against true numbers of {count(len(true), 'test sample')}, and the residuals, "
        f"whose mean size is {significant(float(np.abs(true - predicted).mean()))}."
    )
    return residuals(true, predicted), alt


def _size(run: ValidationRun) -> str:
    algorithms = run.cells["algorithm"].nunique() if "algorithm" in run.cells else 0
    n = run.record.n_candidates
    text = count(n, "candidate") if n is not None else "candidates"
    if algorithms:
        text += f" of {count(algorithms, 'algorithm')}"
    return text + (f", {run.record.task}" if run.record.task else "")


def _answers(run: ValidationRun) -> list[Answer]:
    record, answers = run.record, []
    if best := record.best:
        answers.append(Answer("best", best.algorithm.split(".")[-1], _words(best.parameters)))
        if best.score_mean is not None:
            spread = "" if best.score_std is None else f"± {best.score_std:.4f} over the folds"
            answers.append(Answer(f"cv {run.scoring}", f"{best.score_mean:.4f}", spread))
    if record.nested is not None:
        answers.append(
            Answer(
                f"nested {run.scoring}", f"{record.nested.score_mean:.4f}",
                f"± {record.nested.score_std:.4f} over {record.nested.n_outer} outer folds",
            )
        )  # fmt: skip
    note = wrong_of(record.n_test_errors, record.dataset.n_test)
    for name, score in list(record.test_scores.items())[:1]:
        if score is not None:
            answers.append(Answer(f"test {name}", f"{score:.4f}", note))
    if record.fits_made is not None and record.fits_asked is not None:
        answers.append(
            Answer("fits made", f"{record.fits_made:,}", f"of {record.fits_asked:,} asked for")
        )
    return answers


def _words(parameters: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in parameters.items()) or "defaults"


def _pairs(run: ValidationRun) -> Table:
    # The table of the comparison divides by one less, as its t does.
    n = max((len(found) for found in _scores_of_best(run).values()), default=1)
    pairs = pd.DataFrame() if run.pairs is None else run.pairs
    if len(pairs):
        pairs = pairs.assign(std=pairs["std"] * math.sqrt((n - 1) / n))
    exact, others = ("mean", "std"), ("t", "p", "p_holm", "effect", "p_first", "p_same", "p_second")
    return Table.of(
        ("first", "second", "difference", "standard deviation", "t", "p", "p, Holm", "effect",
         "P(first better)", "P(same)", "P(second better)"),
        [
            [
                str(row["first"]), str(row["second"]),
                *((float(row[name]), f"{row[name]:.4f}") for name in exact),
                *((float(row[name]), f"{row[name]:.3f}") for name in others),
            ]
            for row in pairs.to_dict("records")
        ],
    )  # fmt: skip


def _within_one_standard_error(run: ValidationRun) -> WithinOneStandardError | None:
    """Return candidates as good as the best; what is fitted fastest stands for the simplest."""
    if "fit_seconds" not in run.candidates or "score_mean" not in run.candidates:
        return None
    n_scored = int(run.candidates["n_ok"].max()) if len(run.candidates) else 0
    return within_one_standard_error(run.candidates, n_scored, ("fit_seconds",))


def _as_good(run: ValidationRun) -> str:
    found = _within_one_standard_error(run)
    if found is None:
        return ""
    row = found.simplest
    return describe_ties(
        found, "the best is the one that is fitted fastest",
        f"of all these {row['algorithm']} with {_words(json.loads(row['params']))} is fitted "
        f"fastest, {run.scoring} {row['score_mean']:.4f}",
    )  # fmt: skip


def _candidates(run: ValidationRun) -> Table:
    more = [
        name for name in map(str, run.candidates)
        if name.startswith("score_") and name.endswith("_mean") and name != "score_mean"
    ]  # fmt: skip
    rows: list[list[Value]] = []
    found = _within_one_standard_error(run)
    marks = found.marks("fastest") if found else [""] * len(run.candidates)
    for row, mark in zip(run.candidates.head(MOST_ROWS).to_dict("records"), marks, strict=False):
        score = float(row["score_mean"])
        rows.append(
            [
                (row["rank"], f"{row['rank']:,.0f}"),
                row["algorithm"],
                _words(json.loads(row["params"])),
                number_cell(score, f"{score:.4f}", missing="failed"),
                *((float(row[name]), f"{row[name]:.4f}") for name in ("score_std", *more)),
                (row["n_ok"], f"{row['n_ok']:.0f}"),
                float(row.get("fit_seconds", math.nan)),
                mark,
            ]
        )
    scores = [f"cv {name.removeprefix('score_').removesuffix('_mean')}" for name in more]
    return Table.of(
        ("rank", "algorithm", "parameters", f"cv {run.scoring}", "standard deviation", *scores,
         "folds with a score", "seconds a fit", AS_GOOD), rows,
    )  # fmt: skip


def _used(run: ValidationRun) -> Table:
    """Return implementations, each with its reason and its number of fits."""
    of = ["algorithm", "implementation", "reason"]
    there = len(run.cells) and "implementation" in run.cells
    counts = run.cells.groupby(of, as_index=False).size() if there else pd.DataFrame()
    return Table.of(
        (*of, "fits"),
        [
            [
                str(row["algorithm"]),
                str(row["implementation"]),
                Cell(str(row["reason"]) or "–", str(row["reason"])),
                (row["size"], f"{row['size']:,}"),
            ]
            for row in counts.to_dict("records")
        ],
    )


def _answer(run: ValidationRun) -> list[Part]:
    none = "" if len(run.candidates) else "No candidate has all of its folds yet."
    return [
        *(Text(sentence) for sentence in (none, _as_good(run)) if sentence),
        Columns(
            [
                Chart(
                    "algorithms",
                    f"The best candidate of each algorithm: {run.scoring} on each fold as a point; "
                    f"{BOX_PLOT}. The best algorithm is orange.",
                    wide=True,
                ),
                Chart(
                    "time_against_score",
                    "Every candidate: how long a fit takes, and its mean "
                    f"{run.scoring}. The best is ringed.",
                ),
            ]
        ),
    ]


def _sections(run: ValidationRun) -> list[Section]:
    record, scoring = run.record, run.scoring
    compared = (
        "Fold by fold, each algorithm by its best candidate, the score of the first less that of "
        "the second. p is of the corrected resampled t-test (Nadeau and Bengio; Bouckaert and "
        "Frank over repeats), p, Holm corrects it for the number of pairs. The effect is the mean "
        "over the standard deviation of the differences. The probabilities are those of the mean "
        f"difference being above, within and below ± {record.options.rope} (Corani and Benavoli). "
        "The best of a grid is judged on the folds that chose it, so small differences speak for "
        "little."
    )
    curves = (
        f"Mean {scoring} over the folds, and its standard deviation, against each parameter that "
        "was varied; the other parameters are those of the algorithm's best candidate, which is "
        "orange."
    )
    learning = (
        f"Mean {scoring} on the validation rows, and its standard deviation, when the best "
        "candidate of an algorithm is fitted on a share of the training rows."
    )
    shared = (
        "Candidates that share work are fitted together, with the result that plain fits have; by "
        "a warm-started path and the path solver within the tolerance of the estimator."
    )
    if record.steps_asked:
        shared += f" First steps of pipelines: {record.steps_asked:,} asked for, "
        shared += f"{record.steps_made:,} made."
    families = [
        (one.family, (one.asked, f"{one.asked:,}"), (one.made, f"{one.made:,}"))
        for one in record.families
    ]
    of_families: list[Part] = [
        Text(shared),
        Listing(
            "Shared work", Table.of(("shared", "fits asked for", "fits made"), families), False
        ),
        Text("Implementations", "h3"),
        Listing("Implementations", _used(run), False),
    ]
    points = (
        "Test samples by the best candidate, fitted on all training rows: predicted against true, "
        "and the residuals."
    )
    return [
        Section(
            "comparison", "Comparison of algorithms",
            [Text(compared), Listing("Comparison", _pairs(run), False)], link="Comparison",
        ),
        Section(
            "candidates", "Candidates",
            [
                Chart("validation_curves", curves, wide=True),
                Chart("learning_curve", learning),
                Listing("Candidates", _candidates(run)),
            ],
        ),
        Section("shared", "Shared work", of_families if families else []),
        Section("test", "Test samples", [Chart("residuals", points, wide=True)]),
        test_section(run),
    ]  # fmt: skip


VALIDATION = Kind(
    title="Cross-validation",
    read=read_validation_run,
    figures={
        "algorithms": _boxes,
        "validation_curves": _curves,
        "learning_curve": _learning,
        "time_against_score": _cost,
        "residuals": _residuals,
        **of_any_run(),
    },
    size=_size,
    answers=_answers,
    answer=_answer,
    sections=_sections,
    place=VALIDATION_CELL,
    cell_name=lambda cell: (
        f"{cell['algorithm']}, candidate {cell['candidate']}, fold {cell['fold']}"
    ),
)
