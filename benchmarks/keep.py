"""Results are kept beside the code that made them: figures as JSON, a page to read."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

RESULTS = "benchmarks/results"


def stamped(benchmark: str, **figures: Any) -> dict[str, Any]:
    """A record of what was found, with the day, the machine, the versions and the commit."""
    from benchmarks.machine import describe_machine
    from pipelines.run.environment import commit, versions

    provenance = {"machine": describe_machine(), "versions": versions(), "commit": commit()}
    return {"benchmark": benchmark, "date": date.today().isoformat(), **provenance, **figures}


def keep(folder: Path, name: str, record: dict[str, Any], page: str) -> Path:
    """Write ``DATE-NAME.json`` and ``DATE-NAME.md``; a second result of a day replaces the first.

    Parameters
    ----------
    folder : Path
        Made if it is not there.
    name : str
    record : dict
        With ``date``, as YYYY-MM-DD.
    page : str
        Markdown.

    Returns
    -------
    Path of the page
    """
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{record['date']}-{name}"
    (folder / f"{stem}.json").write_text(json.dumps(record, indent=2) + "\n")
    path = folder / f"{stem}.md"
    path.write_text(page)
    return path


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with columns of equal width, readable as text too."""
    cells = [[cell.replace("|", "/") for cell in line] for line in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in cells]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def slug(text: str) -> str:
    """``text`` as part of a file's name: ``NVIDIA A100 80GB`` -> ``nvidia-a100-80gb``."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
