"""What every run says of itself, whatever it computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pipelines.data.dataset import rows_of
from pipelines.run.counts import clock

if TYPE_CHECKING:
    from pipelines.data import Dataset

CELLS_NAMED = 5
WORTH_SAYING = 0.5  # seconds of compilation
ROWS_SHOWN, COLUMNS_SHOWN = 5, 8


def of_data(dataset: Dataset, form: str, limit: int | None) -> str:
    """One line on the data set, whose points have that ``form``."""
    n_train = len(dataset.y_train)
    all_there_are = f" (all there are; --limit is {limit:,})" if limit and limit > n_train else ""
    return (
        f"data       {dataset.name}: {n_train:,} training rows{all_there_are}, {form}, "
        f"{dataset.n_classes} classes; {len(dataset.y_test):,} test rows"
    )


def first_rows(dataset: Dataset) -> list[str]:
    """Some rows of a table as a solver will see them, a line for each; none of images."""
    import pandas as pd

    if dataset.feature_names is None:
        return []
    some = rows_of(dataset.X_train, slice(ROWS_SHOWN))
    matrix = dataset.scaling.fit(dataset.X_train).transform(some)
    names = getattr(dataset.scaling, "layout", None) or dataset.feature_names
    shown = pd.DataFrame(matrix[:, :COLUMNS_SHOWN], columns=list(names[:COLUMNS_SHOWN]))
    shown.insert(0, "class", dataset.classes[dataset.y_train[:ROWS_SHOWN]], allow_duplicates=True)
    left = matrix.shape[1] - COLUMNS_SHOWN
    lines = shown.to_string(index=False, float_format="%.3g", max_colwidth=24).splitlines()
    return [
        "rows       the first ones, as the solver will see them"
        + (f" ({left} more columns)" if left > 0 else ""),
        *(f"           {line}" for line in lines),
    ]


def wall_time(record: Mapping[str, Any]) -> str:
    """How long the run took, and how much of that its workers were at work."""
    busy, compiled = record.get("busy_share"), record.get("compile_seconds") or 0.0
    share = f", workers busy {busy * 100:.0f} %" if busy is not None else ""
    once = f", {clock(compiled)} of it compiling, once" if compiled >= WORTH_SAYING else ""
    return f"wall time  {clock(record['wall_seconds'])} to the answer{once}{share}"


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
            f"attention  {failure['count']:,} of {record['n_cells']:,} fits {failure['status']}: "
            + "; ".join(named)
        )
    return lines


def _short(number: float) -> str:
    return f"{number:.3g}" if isinstance(number, float) else str(number)
