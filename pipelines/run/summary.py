"""What every run says of itself, whatever it computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pipelines.run.progress import clock

if TYPE_CHECKING:
    from pipelines.data import Dataset

CELLS_NAMED = 5


def of_data(dataset: Dataset, form: str, limit: int | None) -> str:
    """One line on the data set, whose points have that ``form``."""
    n_train = len(dataset.y_train)
    all_there_are = f" (all there are; --limit is {limit:,})" if limit and limit > n_train else ""
    return (
        f"data       {dataset.name}: {n_train:,} training rows{all_there_are}, {form}, "
        f"{dataset.n_classes} classes; {len(dataset.y_test):,} test rows"
    )


def wall_time(record: Mapping[str, Any]) -> str:
    """How long the run took, and how much of that its workers were at work."""
    busy = record.get("busy_share")
    share = f", workers busy {busy * 100:.0f} %" if busy is not None else ""
    return f"wall time  {clock(record['wall_seconds'])}{share}"


def failed_fits(record: Mapping[str, Any], parameters: Sequence[str]) -> list[str]:
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
