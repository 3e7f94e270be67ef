"""The lines of a summary that all commands share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.data.dataset import Dataset
from pipelines.run.progress import time_text
from pipelines.run_folder.measures import measure_of

CELLS_NAMED = 5
WORTH_SAYING = 0.5  # seconds of compilation


def data_line(dataset: Dataset, form: str, limit: int | None) -> str:
    """A line on the data set; ``form`` describes its samples."""
    n_train = len(dataset.y_train)
    limit_note = f" (all available; --limit is {limit:,})" if limit and limit > n_train else ""
    return (
        f"data       {dataset.name}: {n_train:,} training rows{limit_note}, {form}, "
        + (f"{dataset.n_classes} classes" if len(dataset.classes) else "numbers")
        + f"; {len(dataset.y_test):,} test rows"
    )


def baseline_lines(record: Mapping[str, Any]) -> list[str]:
    """A line on the baseline and one for each remark on the result; none without a baseline."""
    baseline = record.get("baseline")
    if not baseline:
        return []
    parts, mean = [], baseline.get("score_mean")
    if mean is not None:
        measure = measure_of(baseline["scoring"])
        parts.append(f"cv {measure.name} {measure.text(measure.of(mean))}")
    if (error := baseline.get("test_error")) is not None:
        parts.append(f"test error {100 * error:.2f} %")
    if (metric := baseline.get("test_metric")) is not None:
        parts.append(f"test {record['metric']} {metric:.4g}")
    return [
        f"baseline   {baseline['words']}: {', '.join(parts) or 'not scored'}",
        *(f"warning    {remark}" for remark in record.get("remarks", ())),
    ]


def wall_time(record: Mapping[str, Any]) -> str:
    """A line on how long the run took, and the fraction of it that its workers were busy."""
    busy_fraction, compile_seconds = record.get("busy_share"), record.get("compile_seconds") or 0.0
    busy_note = f", workers busy {busy_fraction * 100:.0f} %" if busy_fraction is not None else ""
    compile_note = ""
    if compile_seconds >= WORTH_SAYING:
        compile_note = f", of which {time_text(compile_seconds)} compiling (first run only)"
    return f"wall time  {time_text(record['wall_seconds'])}{compile_note}{busy_note}"


def failure_lines(record: Mapping[str, Any], parameters: Sequence[str]) -> list[str]:
    """A line for each status other than "ok", with the first cells that have it.

    ``parameters`` are the columns that name a cell.
    """
    lines = []
    for failure in record["failures"]:
        cells_named = [
            " ".join(
                f"{name}={value:.3g}"
                if isinstance(value := cell[name], float)
                else f"{name}={value}"
                for name in parameters
            )
            for cell in failure["cells"][:CELLS_NAMED]
        ]
        if n_more := failure["count"] - len(cells_named):
            cells_named.append(f"and {n_more} more")
        lines.append(
            f"warning    {failure['count']:,} of {record['n_cells']:,} fits {failure['status']}: "
            + "; ".join(cells_named)
        )
    return lines
