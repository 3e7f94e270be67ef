"""The grid search benchmark as a record to keep and a page to read."""

from __future__ import annotations

from typing import Any

from benchmarks.grid_search.lines import Problem, compare
from benchmarks.grid_search.measure import Measured
from benchmarks.keep import markdown_table
from benchmarks.machine import describe_machine, in_words
from benchmarks.timing import ratios
from pipelines.run.environment import commit, versions


def describe(problem: Problem, measured: Measured, today: str) -> dict[str, Any]:
    """Everything worth keeping of a measurement; every value can be written as JSON."""
    return {
        "benchmark": "svm_grid",
        "date": today,
        "problem": {
            "dataset": problem.dataset.name,
            "n_train": len(problem.dataset.y_train),
            "n_features": problem.dataset.X_train.shape[1],
            "n_classes": problem.dataset.n_classes,
            "C": list(problem.Cs),
            "gamma": list(problem.gammas),
            "folds": len(problem.folds),
            "fits": problem.n_fits,
            "fingerprint": problem.dataset.fingerprint,
        },
        "ours_on": measured.where,
        "warm_up_seconds": measured.warm_up,
        "lines": [
            {
                "name": line.name,
                "seconds": list(line.seconds),
                "median": line.median,
                "min": line.spread[0],
                "max": line.spread[1],
            }
            for line in measured.ours + measured.peers
        ],
        "comparisons": [
            {
                "ours": our.name,
                "peer": peer.name,
                **dict(zip(("ratio", "ratio_min", "ratio_max"), ratios(peer, our), strict=True)),
                **compare(our.result, peer.result),
            }
            for our in measured.ours
            for peer in measured.peers
        ],
        "not_timed": measured.missing,
        "machine": describe_machine(),
        "versions": versions(),
        "commit": commit(),
    }


def page(record: dict[str, Any]) -> str:
    """The record as Markdown: what was done, on what, and two tables."""
    problem = record["problem"]
    times = [
        (line["name"], *(f"{line[key]:.2f}" for key in ("median", "min", "max")))
        for line in record["lines"]
    ] + [(name, f"not timed: {why}", "", "") for name, why in record["not_timed"].items()]
    versions_ = ", ".join(f"{name} {number}" for name, number in record["versions"].items())
    warm_up = ", ".join(f"{name} {s:.1f} s" for name, s in record["warm_up_seconds"].items())
    return f"""\
# SVM grid search: {problem["dataset"]}, {record["date"]}

{problem["n_train"]:,} rows × {problem["n_features"]} features, {problem["n_classes"]} classes.
{_axis("C", problem["C"])} × {_axis("gamma", problem["gamma"])} ×
{problem["folds"]} folds = {problem["fits"]:,} fits.
Every line has the same scaled rows, folds and grid: ours on {record["ours_on"]},
the peers with `n_jobs=-1`, which is as many; in turn, in one process tree.

{markdown_table(("line", "median s", "min s", "max s"), times)}

{markdown_table(COMPARISON, [_comparison(comparison) for comparison in record["comparisons"]])}

Warm-up, not counted: {warm_up}.

Machine: {in_words(record["machine"])}.

Versions: {versions_}; commit {record["commit"] or "unknown"}.
"""


COMPARISON = ("ours", "peer", "peer / ours", "least", "most", "cells that differ", "by at most")


def _axis(name: str, values: list[float]) -> str:
    if len(values) == 1:
        return f"1 {name} ({values[0]:.3g})"
    return f"{len(values)} {name} ({values[0]:.3g} to {values[-1]:.3g})"


def _comparison(comparison: dict[str, Any]) -> tuple[str, ...]:
    rows = comparison["largest_difference_rows"]
    failed = f", {comparison['n_cells_failed']} failed" if comparison["n_cells_failed"] else ""
    return (
        comparison["ours"],
        comparison["peer"],
        *(f"{comparison[key]:.2f} ×" for key in ("ratio", "ratio_min", "ratio_max")),
        f"{comparison['n_cells_that_differ']} of {comparison['n_cells']}{failed}",
        "none compared" if rows is None else f"{rows} row" + "s" * (rows != 1),
    )
