"""The lines of a summary that all commands share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pipelines.data.dataset import Dataset, rows_of
from pipelines.run.progress_state import clock
from pipelines.run_folder.measures import measure_of

if TYPE_CHECKING:
    from pipelines.run.lifecycle import Data, Session

CELLS_NAMED = 5
WORTH_SAYING = 0.5  # seconds of compilation
ROWS_SHOWN, COLUMNS_SHOWN = 5, 8


def of_data(dataset: Dataset, form: str, limit: int | None) -> str:
    """Return a line on the data set; ``form`` describes its samples."""
    n_train = len(dataset.y_train)
    all_there_are = f" (all there are; --limit is {limit:,})" if limit and limit > n_train else ""
    return (
        f"data       {dataset.name}: {n_train:,} training rows{all_there_are}, {form}, "
        + (f"{dataset.n_classes} classes" if len(dataset.classes) else "numbers")
        + f"; {len(dataset.y_test):,} test rows"
    )


def first_rows(dataset: Data) -> list[str]:
    """Return lines that show some rows of a table as a solver will see them."""
    if not isinstance(dataset, Dataset) or dataset.feature_names is None:
        return []
    import pandas as pd

    some = rows_of(dataset.X_train, slice(ROWS_SHOWN))
    matrix = dataset.scaling.fit(dataset.X_train).transform(some)
    names = getattr(dataset.scaling, "layout", None) or dataset.feature_names
    shown = pd.DataFrame(matrix[:, :COLUMNS_SHOWN], columns=list(names[:COLUMNS_SHOWN]))
    targets, name = dataset.y_train[:ROWS_SHOWN], "target"
    if len(dataset.classes):
        targets, name = dataset.classes[targets], "class"
    shown.insert(0, name, targets, allow_duplicates=True)
    left = matrix.shape[1] - COLUMNS_SHOWN
    lines = shown.to_string(index=False, float_format="%.3g", max_colwidth=24).splitlines()
    return [
        "rows       the first ones, as the solver will see them"
        + (f" ({left} more columns)" if left > 0 else ""),
        *(f"           {line}" for line in lines),
    ]


def baseline_lines(record: Mapping[str, Any]) -> list[str]:
    """Return a line on the baseline, and one for each remark on the result."""
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
        *(f"attention  {remark}" for remark in record.get("remarks", ())),
    ]


def wall_time(record: Mapping[str, Any]) -> str:
    """Return how long the run took, and the share of it that its workers were busy."""
    busy, compiled = record.get("busy_share"), record.get("compile_seconds") or 0.0
    share = f", workers busy {busy * 100:.0f} %" if busy is not None else ""
    once = f", {clock(compiled)} of it compiling, once" if compiled >= WORTH_SAYING else ""
    return f"wall time  {clock(record['wall_seconds'])} to the answer{once}{share}"


def failed_fits(record: Mapping[str, Any], parameters: Sequence[str]) -> list[str]:
    """Return a line for each status other than "ok", with the first cells that have it.

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


def line_of_what_is_left(session: Session, fits: tuple[int, int] | None, cost: float = 0.0) -> str:
    """Return a line on an unfinished run: folder, what is done, what is left and its duration.

    Parameters
    ----------
    session : Session, of the folder as it lies
    fits : how many are done and how many there are, None where the command cannot tell
    cost : predicted, of all units of the run; 0 where the command cannot tell, and then every fit
        is taken for as long as the others
    """
    session.folder.start_clock(session.journal.records)
    spent, path = session.folder.wall_before, session.path
    if session.record.get("status") == "finished":
        return f"resume     {path} holds a finished run, {clock(spent)}"
    if fits is None:
        return f"resume     {path}: {len(session.journal.records)} tasks done in {clock(spent)}"
    done, total = fits
    if not done:
        return f"resume     {path}: nothing finished yet, {total:,} fits left"
    left = f"{total - done:,} left"
    if done < total:
        # What was under way when the run was stopped is in its wall time, but not in its journal.
        busy = sum(record["seconds"] for record in session.journal.records)
        n_workers = session.record.get("cluster", {}).get("n_workers") or 1
        costs = [record.get("cost") for record in session.journal.records]
        done_cost = sum(one or 0.0 for one in costs)
        if None in costs or not 0 < done_cost < cost:
            done_cost, cost = done, total
        seconds = busy / n_workers * (cost - done_cost) / done_cost
        left += f", about {clock(seconds)} on as many workers"
    return f"resume     {path}: {done:,} of {total:,} fits done in {clock(spent)}, {left}"
