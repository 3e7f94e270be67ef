"""Candidates that lack splits: given up by a strategy, out of time, or not tried.

The table of candidates lists them after those with all splits, and ``run.json`` counts them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pipelines.run_folder.measures import Measure, measure_of
from pipelines.run_folder.ranking import TIE_DECIMALS
from pipelines.search.strategies.base import WHOLE, Stop
from pipelines.search.summary import fraction_in_words
from pipelines.search.tasks import SEARCH, Problem

if TYPE_CHECKING:
    import pandas as pd

NOT_TRIED = "not tried"


def with_unfinished(
    ranked: pd.DataFrame,
    cells: pd.DataFrame,
    problem: Problem,
    stopped: Mapping[int, Stop],
    splits: str,
) -> pd.DataFrame:
    """The ranked candidates, followed by those that lack splits.

    Parameters
    ----------
    ranked : DataFrame
        Best first, as ``reduce_scores`` returns them: candidates with all splits or, if there are
        none, those that were tried on the most.
    cells : DataFrame
        All cells of the search, fits on fractions of the rows included.
    problem : Problem
        The search, with all candidates.
    stopped : mapping of int to Stop
        Says when candidates were given up, by candidate number.
    splits : str
        The number of splits in words: ``5 folds``.

    Returns
    -------
    DataFrame
        With three more columns:

        ``score_part`` : mean score of the splits that a candidate was tried on, on the largest
        fraction of the rows; NaN if a fit failed

        ``behind`` : how much its mean score was below the best on the same splits when it was
        given up; NaN for all others

        ``stopped`` : "" for a candidate with all splits, else ``stopped after 2 of 5 folds, 3.1
        points behind``, ``out of time after 2 of 5 folds`` or ``not tried``

        For the added candidates ``score_mean`` is NaN and ``n_ok`` counts splits of all rows;
        those that were tried on the most come first.
    """
    import pandas as pd

    measure, n_splits = measure_of(problem.scorer.names[0]), len(problem.splits[SEARCH, WHOLE])
    by_share = cells.groupby(["candidate", "share"])["score"].agg(["size", "count", "mean"])
    largest = by_share.reset_index().drop_duplicates("candidate", keep="last")
    tried = {int(row.pop("candidate")): row for row in largest.to_dict("records")}
    no_cells: dict[Any, Any] = {"share": 0.0, "size": 0, "count": 0, "mean": math.nan}
    states = list[dict[str, Any]]()
    for index, candidate in enumerate(problem.candidates):
        row, stop = tried.get(index, no_cells), stopped.get(index)
        fraction, n, n_ok, score = (row[name] for name in ("share", "size", "count", "mean"))
        if fraction == WHOLE and n >= n_splits:
            continue
        state = {name: candidate.parameters[name] for name in problem.columns}
        state["candidate"] = index
        state["n_ok"] = n_ok if fraction == WHOLE else 0
        state["score_part"] = score if n_ok == n else math.nan
        state["behind"] = math.nan if stop is None or stop.behind is None else stop.behind
        state["stopped"] = describe_stop(
            stop or Stop(n, fraction, None), stop is not None, splits, measure
        )
        order = {"tried": (-fraction, -n), "tie": -round(state["score_part"], TIE_DECIMALS)}
        states.append(state | order)
    table = ranked.assign(score_part=ranked["score_mean"], behind=math.nan, stopped="")
    if not states:
        return table
    unfinished = pd.DataFrame(states)
    of_ranked = table["candidate"].map(unfinished.set_index("candidate")["stopped"])
    table["stopped"] = of_ranked.fillna("").astype(table["stopped"].dtype)
    unfinished = unfinished[~unfinished["candidate"].isin(table["candidate"])]
    unfinished = unfinished.sort_values(["tried", "tie", *(problem.columns or ["candidate"])])
    unfinished["rank"] = range(len(table) + 1, len(table) + len(unfinished) + 1)
    unfinished = unfinished.reindex(columns=table.columns).astype(table.dtypes)
    return pd.concat([table, unfinished], ignore_index=True)


def describe_stop(stop: Stop, is_given_up: bool, splits: str, measure: Measure) -> str:
    """How far a candidate got, and why it got no further, in words.

    Parameters
    ----------
    stop : Stop
        Says what the candidate was tried on.
    is_given_up : bool
        Whether a strategy gave it up; else time ran out.
    splits : str
        See ``with_unfinished``.
    measure : Measure
        How scores are shown.
    """
    if not stop.n_splits and not is_given_up:
        return NOT_TRIED
    words = "stopped" if is_given_up else "out of time"
    words += f" after {stop.n_splits} of {splits}"
    if stop.fraction < WHOLE:
        words = f"{words.partition(' after ')[0]} on {fraction_in_words(stop.fraction)} of the rows"
    if not is_given_up:
        return words
    return f"{words}, " + (
        "a fit failed" if stop.behind is None else f"{measure.behind(stop.behind)} behind"
    )


def strategy_entries(
    name: str,
    candidates: pd.DataFrame,
    cells: pd.DataFrame,
    problem: Problem,
    tasks: Iterable[Mapping[str, Any]],
) -> dict[str, Any]:
    """The entry ``strategy`` of ``run.json``: the fits a strategy made, and what it gave up.

    Parameters
    ----------
    name : str
        Name of the strategy.
    candidates : DataFrame
        As ``with_unfinished`` returns them.
    cells : DataFrame
        All cells of the search.
    problem : Problem
        The search, with all candidates.
    tasks : iterable of dict
        Records of the journal, of this and earlier sessions; their seconds count without
        compilation.

    Returns
    -------
    dict
        Its ``strategy`` is as ``StrategyMetadata`` describes it.
    """
    fits = dict(sorted(Counter(cells["share"].tolist()).items()))
    seconds = dict.fromkeys(fits, 0.0)
    for task in tasks:
        task_fractions = [row["share"] for row in task["rows"] if row.get("stage") == SEARCH]
        if task_fractions and task_fractions[0] in seconds:
            seconds[task_fractions[0]] += max(
                0.0, task["seconds"] - task.get("compile_seconds", 0.0)
            )
    states, n_splits = candidates["stopped"], len(problem.splits[SEARCH, WHOLE])
    first_state = dict[str, str]()
    for index, state in zip(candidates["candidate"], states, strict=True):
        first_state.setdefault(problem.candidates[index].algorithm, state)
    entries = {
        "name": name,
        "n_candidates": len(candidates),
        "fits": fits.get(WHOLE, 0),
        "share_fits": len(cells) - fits.get(WHOLE, 0),
        "grid_fits": len(candidates) * n_splits,
        "n_stopped": int(states.str.startswith("stopped").sum()),
        "n_out_of_time": int(states.str.startswith("out of time").sum()),
        "n_not_tried": int((states == NOT_TRIED).sum()),
        "left_out": {algorithm: state for algorithm, state in first_state.items() if state},
        "parts": [
            {"share": fraction, "fits": n, "seconds": seconds[fraction]}
            for fraction, n in fits.items()
        ],
    }
    return {"strategy": entries}
