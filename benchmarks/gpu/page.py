"""The outcomes of all checks as a record to keep and a page to read."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu.carry_out import BEGUN, FAILED, NOT_RUN, PASSED, ROOT, Outcome
from benchmarks.gpu.checks import GPU, Check
from benchmarks.gpu.device import Driver, Gpu
from benchmarks.keep import markdown_table
from benchmarks.machine import describe_machine, in_words, installed
from pipelines.run.environment import commit

PACKAGES = (
    "cuml",
    "cudf",
    "cupy",
    "cuda-python",
    "dask",
    "distributed",
    "numba",
    "numpy",
    "nvidia-",
    "pylibraft",
    "pytest",
    "rmm",
    "scikit-learn",
    "scipy",
    "torch",
    "triton",
)
REASON_LINES = 25
HEADER = ("check", "needs", "result", "planned", "seconds", "compiled", "key figure")


def describe(
    outcomes: Sequence[Outcome], gpus: Sequence[Gpu], driver: Driver, today: str
) -> dict[str, Any]:
    """Everything worth keeping; every value can be written as JSON."""
    return {
        "benchmark": "gpu_check",
        "date": today,
        "gpus": [{"name": gpu.name, "memory_mib": gpu.memory_mib} for gpu in gpus],
        "driver": driver.version,
        "cuda": driver.cuda,
        "machine": describe_machine(),
        "versions": installed(PACKAGES),
        "commit": commit(),
        "checks": [
            {
                "check": outcome.check.name,
                "needs": [GPU, *outcome.check.needs],
                "result": outcome.status,
                "planned": outcome.check.planned,
                "seconds": round(outcome.seconds, 1),
                "compiled": round(outcome.compiled, 1),
                "figure": outcome.figure,
                "reason": without_paths("\n".join(outcome.reason.splitlines()[-REASON_LINES:])),
            }
            for outcome in outcomes
        ],
    }


def passed_in(path: Path, checks: Sequence[Check]) -> dict[str, Outcome]:
    """Return the checks that passed by a record, by name."""
    by_name = {check.name: check for check in checks}
    return {
        row["check"]: Outcome(
            by_name[row["check"]],
            PASSED,
            row["seconds"],
            row["compiled"],
            row["figure"],
            row["reason"],
        )
        for row in json.loads(path.read_text())["checks"]
        if row["result"] == PASSED and row["check"] in by_name
    }


def table(record: dict[str, Any]) -> str:
    """One line for each check."""
    return markdown_table(
        HEADER,
        [
            (
                row["check"],
                ", ".join(row["needs"]),
                _result(row),
                f"{row['planned']} s",
                f"{row['seconds']:.1f}",
                f"{row['compiled']:.1f}",
                row["figure"],
            )
            for row in record["checks"]
        ],
    )


def _result(row: dict[str, Any]) -> str:
    if row["result"] in (NOT_RUN, BEGUN):
        return f"{row['result']}: {row['reason']}"
    if row["result"] == FAILED:
        return FAILED
    return row["result"] + (f" (not: {row['reason']})" if row["reason"] else "")


def page(record: dict[str, Any]) -> str:
    """The record as Markdown."""
    gpus = ", ".join(f"{gpu['name']} ({gpu['memory_mib']} MiB)" for gpu in record["gpus"])
    versions = ", ".join(f"{name} {number}" for name, number in record["versions"].items())
    failures = "".join(
        f"\n## Failed: {row['check']}\n\n```\n{row['reason']}\n```\n"
        for row in record["checks"]
        if row["result"] == FAILED
    )
    return f"""\
# GPU check: {record["gpus"][0]["name"]}, {record["date"]}

GPU: {gpus}; driver {record["driver"] or "unknown"}, CUDA up to {record["cuda"] or "unknown"}.

Machine: {in_words(record["machine"])}.

{table(record)}

Seconds are of a check's whole process; *compiled* are those of them in which it compiled or
warmed up, *planned* what it was expected to take with everything compiled anew.
{failures}
Versions: {versions}; commit {record["commit"] or "unknown"}.
"""


def without_paths(text: str) -> str:
    """``text`` without where things lie on this machine."""
    places = {str(ROOT): ".", sys.prefix: "PYTHON", sys.base_prefix: "PYTHON"}
    places[str(Path.home())] = "~"
    for path, name in places.items():
        if len(path) > 1:  # a home of "/" says nothing, and is everywhere
            text = text.replace(path, name)
    return text
