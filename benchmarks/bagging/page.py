"""The benchmark of the networks as a record to keep and a page to read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.bagging.lines import Cells, Problem, compare
from benchmarks.keep import markdown_table
from benchmarks.machine import describe_machine, in_words
from benchmarks.timing import Timed, ratios
from pipelines.run.environment import commit, versions


def describe(
    problem: Problem,
    space: str,
    timed: Sequence[Timed[Cells]],
    n_workers: int,
    where: str,
    today: str,
) -> dict[str, Any]:
    """Everything worth keeping of a measurement; every value can be written as JSON.

    ``timed`` is our line, then those of the plain loop.
    """
    ours, plain = timed[0], timed[1:]
    sample_rows = len(problem.dataset.y_train)
    return {
        "benchmark": "nn_bagging",
        "date": today,
        "problem": {
            "dataset": problem.dataset.name,
            "n_train": sample_rows,
            "folds": problem.trainings.n_folds,
            "space": space,
            "batch_size": problem.training.batch_size,
            "max_epochs": problem.training.max_epochs,
            "precision": problem.training.precision,
            "candidates": [asdict(candidate.spec) for candidate in problem.candidates],
            "fingerprint": problem.dataset.fingerprint,
        },
        "ours_on": where,
        "lines": [
            {
                "name": line.name,
                "seconds": list(line.seconds),
                "median": line.median,
                "min": line.spread[0],
                "max": line.spread[1],
            }
            for line in timed
        ],
        "comparisons": [
            {
                "plain": line.name,
                **dict(zip(("ratio", "ratio_min", "ratio_max"), ratios(line, ours), strict=True)),
                **compare(ours.result, line.result, n_workers),
            }
            for line in plain
        ],
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
    ]
    versions_ = ", ".join(f"{name} {number}" for name, number in record["versions"].items())
    return f"""\
# Cross-validation of networks: {problem["dataset"]}, {record["date"]}

{problem["n_train"]:,} rows, {len(problem["candidates"])} candidates drawn from the space
`{problem["space"]}`, {problem["folds"]} folds of a bootstrap sample, batches of
{problem["batch_size"]}, at most {problem["max_epochs"]} epochs. Every line begins with the same
weights and takes the rows in the same orders. Ours: {record["ours_on"]}. Plain:
`torch.nn.Module`, `DataLoader` and `torch.optim.SGD`, one fold after another.

{markdown_table(("line", "median s", "min s", "max s"), times)}

{markdown_table(COMPARISON, [_comparison(comparison) for comparison in record["comparisons"]])}

The ratio of a draw compares the time for which a candidate alone would fill the machine.

Machine: {in_words(record["machine"])}.

Versions: {versions_}; commit {record["commit"] or "unknown"}.
"""


COMPARISON = (
    "plain / ours",
    "all",
    "least turn",
    "most",
    "median draw",
    "least draw",
    "most",
    "folds that differ",
    "by at most",
    "epochs, ours",
    "plain",
)


def _comparison(comparison: dict[str, Any]) -> tuple[str, ...]:
    rows = comparison["largest_difference_rows"]
    draws = comparison["ratio_by_draw"]
    figures = (
        comparison["ratio"],
        comparison["ratio_min"],
        comparison["ratio_max"],
        comparison["ratio_median_draw"],
        min(draws),
        max(draws),
    )
    return (
        comparison["plain"],
        *(f"{figure:.2f} ×" for figure in figures),
        f"{comparison['n_cells_that_differ']} of {comparison['n_cells']}",
        "none compared" if rows is None else f"{rows} row" + "s" * (rows != 1),
        str(comparison["epochs_ours"]),
        str(comparison["epochs_plain"]),
    )
