"""The table of a chaos test, from the runs that were disturbed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.keep import markdown_table
from benchmarks.machine import describe_machine, in_words
from pipelines.run.environment import commit, versions
from tests.chaos.runs import KINDS, Result


def describe(
    results: Sequence[Result], skipped: Mapping[str, str], seed: int, day: str
) -> dict[str, Any]:
    """All there is to know of a chaos test, as JSON can hold it."""
    return {
        "date": day,
        "seed": seed,
        "machine": describe_machine(),
        "versions": versions(),
        "commit": commit(),
        "not_tried": dict(skipped),
        "runs": [asdict(result) for result in results],
    }


def page(record: dict[str, Any]) -> str:
    """The record as Markdown."""
    broken = [run for run in record["runs"] if run["broken"]]
    lines = [
        f"# Chaos, {record['date']}",
        "",
        f"`make chaos`, seed {record['seed']}, commit {(record['commit'] or 'unknown')[:12]}, on "
        f"{in_words(record['machine'])}.",
        "",
        summary(record),
        "",
        *(f"- {name}: not tried: {reason}" for name, reason in record["not_tried"].items()),
        *(f"- {run['kind']} {run['number']}: {run['broken']}" for run in broken),
        "",
        "## Every run",
        "",
        markdown_table(
            ["run", "command", "what was done to it", "seconds", "held"],
            [
                [
                    f"{run['kind']} {run['number']}",
                    run["command"],
                    "; ".join(run["done"]),
                    f"{run['seconds']:.0f}",
                    "no" if run["broken"] else "yes",
                ]
                for run in record["runs"]
            ],
        ),
    ]
    return "\n".join(lines) + "\n"


def summary(record: dict[str, Any]) -> str:
    """One line for each kind of chaos."""
    rows = []
    for name, kind in KINDS.items():
        runs = [run for run in record["runs"] if run["kind"] == name]
        if not runs:
            continue
        n_faults = sum(len(run["done"]) for run in runs)
        held = sum(not run["broken"] for run in runs)
        rows.append([kind.about, str(len(runs)), str(n_faults), f"{held} of {len(runs)}"])
    return markdown_table(["what was done", "runs", "faults", "ended as the undisturbed run"], rows)
