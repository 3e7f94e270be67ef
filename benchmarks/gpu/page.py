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
                "check": one.check.name,
                "needs": [GPU, *one.check.needs],
                "result": one.status,
                "planned": one.check.planned,
                "seconds": round(one.seconds, 1),
                "compiled": round(one.compiled, 1),
                "figure": one.figure,
                "reason": without_paths("\n".join(one.reason.splitlines()[-REASON_LINES:])),
            }
            for one in outcomes
        ],
    }


def passed_in(path: Path, checks: Sequence[Check]) -> dict[str, Outcome]:
    """Return the checks that passed by a record, by name."""
    by_name = {check.name: check for check in checks}
    return {
        one["check"]: Outcome(
            by_name[one["check"]],
            PASSED,
            one["seconds"],
            one["compiled"],
            one["figure"],
            one["reason"],
        )
        for one in json.loads(path.read_text())["checks"]
        if one["result"] == PASSED and one["check"] in by_name
    }


def table(record: dict[str, Any]) -> str:
    """One line for each check."""
    return markdown_table(
        HEADER,
        [
            (
                one["check"],
                ", ".join(one["needs"]),
                _result(one),
                f"{one['planned']} s",
                f"{one['seconds']:.1f}",
                f"{one['compiled']:.1f}",
                one["figure"],
            )
            for one in record["checks"]
        ],
    )


def _result(one: dict[str, Any]) -> str:
    if one["result"] in (NOT_RUN, BEGUN):
        return f"{one['result']}: {one['reason']}"
    if one["result"] == FAILED:
        return FAILED
    return one["result"] + (f" (not: {one['reason']})" if one["reason"] else "")


def page(record: dict[str, Any]) -> str:
    """The record as Markdown."""
    gpus = ", ".join(f"{gpu['name']} ({gpu['memory_mib']} MiB)" for gpu in record["gpus"])
    versions = ", ".join(f"{name} {number}" for name, number in record["versions"].items())
    failures = "".join(
        f"\n## Failed: {one['check']}\n\n```\n{one['reason']}\n```\n"
        for one in record["checks"]
        if one["result"] == FAILED
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
    for place, name in places.items():
        if len(place) > 1:  # a home of "/" says nothing, and is everywhere
            text = text.replace(place, name)
    return text
