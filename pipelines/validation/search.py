"""From candidates to rows: what the command and the classes share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pipelines.run.outcomes import Outcome, without_compilation
from pipelines.run.tasks import Runner
from pipelines.run_folder import columns
from pipelines.select.scores import reduce_scores, scored_rows, with_worker
from pipelines.validation.units import SEARCH, Place, Problem, Row, Unit, failed_rows, fit_unit

if TYPE_CHECKING:
    import pandas as pd
    from distributed import Client


def carry_out_units(
    runner: Runner, problem: Problem, units: Sequence[Unit], n_threads: int = 1,
    inner_jobs: str = "worker",
) -> Iterator[tuple[Outcome[Unit], list[Row]]]:  # fmt: skip
    """Fit units; give each outcome with its rows, as it arrives."""
    work = partial(fit_unit, n_threads=n_threads, inner_jobs=inner_jobs)
    for outcome in runner.outcomes(work, problem, units):
        if outcome.error is None:
            rows = without_compilation(outcome.result, outcome.seconds, outcome.compile_seconds)
        else:
            rows = failed_rows(problem, outcome.unit, outcome.error)
        yield outcome, with_worker(rows, outcome.worker)


def place_of(row: Mapping[str, Any]) -> Place:
    """What names a row."""
    return row["stage"], row["candidate"], row["split"], row["share"]


def rows_by_place(records: Iterable[Mapping[str, Any]]) -> dict[Place, Row]:
    """Rows of a journal, see ``scored_rows``."""
    return {place_of(row): row for row in scored_rows(records)}


def tabulate(rows: Iterable[Row], stage: str = SEARCH) -> pd.DataFrame:
    """Rows of a stage as a table, sorted by candidate, split and share."""
    import pandas as pd

    chosen = [row for row in rows if row["stage"] == stage]
    known = columns.OF_VALIDATION
    more = [name for name in (chosen[0] if chosen else {}) if name not in known]
    types = {**known, **dict.fromkeys(more, "float64")}
    table = pd.DataFrame(chosen, columns=list(types)).astype(types)
    return table.sort_values(["candidate", "split", "share"], ignore_index=True)


def rank(cells: pd.DataFrame, n_folds: int, client: Client | None = None) -> pd.DataFrame:
    """The candidates of a table of cells with their algorithm and parameters, best first."""
    ranked = reduce_scores(cells, columns.VALIDATION_CANDIDATE, n_folds, client)
    by_candidate = cells.groupby("candidate")
    about = by_candidate[["algorithm", "params"]].first()
    seconds = by_candidate[["fit_seconds", "score_seconds"]].mean()
    more = by_candidate[
        [name for name in map(str, cells) if name.startswith("score_") and name not in seconds]
    ]
    return ranked.join(about, on="candidate").join(seconds, on="candidate").join(
        more.mean().add_suffix("_mean"), on="candidate"
    )  # fmt: skip


def best_of_each(ranked: pd.DataFrame) -> dict[str, int]:
    """The best candidate of every algorithm that has one with a score, in the order of rank."""
    scored = ranked[ranked["score_mean"].notna()]
    first = scored.drop_duplicates("algorithm")
    return dict(zip(first["algorithm"], first["candidate"].astype(int), strict=True))
