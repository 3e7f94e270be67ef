"""What every run says at its end, whatever it computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipelines.run.progress import clock

CELLS_NAMED = 5


def wall_time(record: dict[str, Any]) -> str:
    """How long the run took, and how much of that its workers were at work."""
    busy = record.get("busy_share")
    share = f", workers busy {busy * 100:.0f} %" if busy is not None else ""
    return f"wall time  {clock(record['wall_seconds'])}{share}"


def failed_fits(record: dict[str, Any], parameters: Sequence[str]) -> list[str]:
    """A line for each status other than "ok", with the first cells that have it.

    ``parameters`` are the columns that name a cell.
    """
    lines = []
    for failure in record["failures"]:
        named = [
            " ".join(f"{name}={_short(cell[name])}" for name in parameters)
            for cell in failure["cells"][:CELLS_NAMED]
        ]
        if more := failure["count"] - len(named):
            named.append(f"and {more} more")
        lines.append(
            f"attention  {failure['count']} of {record['n_cells']} fits {failure['status']}: "
            + "; ".join(named)
        )
    return lines


def _short(number: float) -> str:
    return f"{number:.3g}" if isinstance(number, float) else str(number)
