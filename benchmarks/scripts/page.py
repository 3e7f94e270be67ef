"""The record of the scripts as a page to read."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import geometric_mean
from typing import Any

from benchmarks.keep import markdown_table
from benchmarks.scripts.comparison import ROUNDING, TOLERANCE

HEADER = (
    "script",
    "searches",
    "plain s",
    "accelerated s",
    "ratio",
    "in searches: plain s",
    "accelerated s",
    "ratio",
    "results",
)


def line_of(line: dict[str, Any]) -> list[str]:
    """A script's cells of the table: the least seconds of its turns."""
    plain, accelerated = line["plain"], line["accelerated"]
    return [
        line["script"],
        line["searches"],
        f"{min(plain['whole']):.1f}",
        f"{min(accelerated['whole']):.1f}",
        _ratio(line["whole"]),
        f"{min(plain['searches']):.2f}",
        f"{min(accelerated['searches']):.2f}",
        _ratio(line["inside"]),
        line["results"],
    ]


def _ratio(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


def summary(ratios: Sequence[float]) -> dict[str, float]:
    """The geometric mean, the least, and how many are above 10; nothing of none."""
    if not ratios:
        return {}
    return {
        "mean": geometric_mean(ratios),
        "least": min(ratios),
        "above_10": sum(ratio > 10 for ratio in ratios),
    }


def page(record: dict[str, Any]) -> str:
    """The record as a page to read."""
    from benchmarks.machine import in_words

    lines = record["lines"]
    timed = [line for line in lines if line["whole"] is not None]
    table = markdown_table(HEADER, [line_of(line) for line in lines])
    summaries = "".join(
        f"- {name}: geometric mean {figures['mean']:.2f} x, least {figures['least']:.2f} x, "
        f"{figures['above_10']} of {len(timed)} above 10 x\n"
        for name, figures in (
            ("whole scripts", summary([line["whole"] for line in timed])),
            ("their searches", summary([line["inside"] for line in timed])),
        )
        if figures
    )
    left_out = "".join(f"- {name}: {reason}\n" for name, reason in record["left_out"].items())
    return (
        f"# Public scripts, unchanged, {record['date']}\n\n"
        "CPU seconds of `python SCRIPT` and of `python -m pipelines.accelerate SCRIPT`, with all "
        "processes that they start, on one thread, in turns: the least of "
        f"{record['repeat']} turns each. Whole scripts import, draw and fit outside of searches, "
        "too. Results are equal where every best candidate is the same and no score of a split "
        f"differs by more than {ROUNDING:g}; otherwise it is said how many differ and how far. "
        "Another best candidate of another score, or a best score further away than "
        f"{TOLERANCE:g}, fails. Scripts "
        "are seedless where two plain runs differ from each other.\n\n"
        f"{table}\n\n{summaries}\n## Left out\n\n{left_out}\n"
        f"{in_words(record['machine'])}. Repeat it: `python -m benchmarks.scripts --from DIR`; "
        "`--list` says what DIR holds.\n"
    )
