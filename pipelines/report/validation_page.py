"""The page of a run of ``cross_validate``: its figures, its answers, its words."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from pipelines.report.figures import Made, of_any_run
from pipelines.report.kind import Answer, Kind
from pipelines.report.table import AS_GOOD, MOST_ROWS, Cell, Table, Value, number_cell
from pipelines.report.validation_figures import (
    algorithm_boxes,
    learning_curve,
    residuals,
    time_against_score,
    validation_curves,
)
from pipelines.report.validation_folder import ValidationRun, read_validation_run
from pipelines.report.wording import as_good, count, significant, wrong_of
from pipelines.run_folder.columns import VALIDATION_CELL
from pipelines.run_folder.judgement import Rivals, rivals


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
    """For each parameter with several values, the candidates that differ from the best in it."""
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
    if "fit_seconds" not in run.candidates:
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
        f"Predicted against true numbers of {count(len(true), 'test point')}, and the residuals, "
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


def _rivals(run: ValidationRun) -> Rivals | None:
    """Candidates that are as good as the best; what is fitted fastest stands for the simplest."""
    if "fit_seconds" not in run.candidates or "score_mean" not in run.candidates:
        return None
    n_scored = int(run.candidates["n_ok"].max()) if len(run.candidates) else 0
    return rivals(run.candidates, n_scored, ("fit_seconds",))


def _as_good(run: ValidationRun) -> str:
    found = _rivals(run)
    if found is None:
        return ""
    row = found.simplest
    return as_good(
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
    found = _rivals(run)
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
    """Implementations, each with its reason and its number of fits."""
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


def _content(run: ValidationRun) -> dict[str, Any]:
    families = [
        (one.family, (one.asked, f"{one.asked:,}"), (one.made, f"{one.made:,}"))
        for one in run.record.families
    ]
    return {
        "scoring": run.scoring,
        "as_good": _as_good(run),
        "rope": run.record.options.rope,
        "compared": _pairs(run),
        "candidates": _candidates(run),
        "families": Table.of(("shared", "fits asked for", "fits made"), families),
        "steps": (run.record.steps_asked, run.record.steps_made),
        "used": _used(run),
    }


VALIDATION = Kind(
    title="Cross-validation",
    template="cross_validate.html",
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
    content=_content,
    place=VALIDATION_CELL,
    cell_name=lambda cell: (
        f"{cell['algorithm']}, candidate {cell['candidate']}, fold {cell['fold']}"
    ),
)
