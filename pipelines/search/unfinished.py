"""Candidates that do not have all splits: given up, out of time, or not tried; and what that saved.

The table of candidates has them after those with all splits, and ``run.json`` counts them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pipelines.run_folder.measures import Measure, measure_of
from pipelines.run_folder.ranking import TIE_DECIMALS
from pipelines.search.strategies.base import WHOLE, Stop
from pipelines.search.summary import share_in_words
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
    """The ranked candidates, and after them those that do not have all splits.

    Parameters
    ----------
    ranked : best first, as ``reduce_scores`` gives them: those with all splits, or where there are
        none those that were tried on the most
    cells : all rows of the search, those of shares of the rows among them
    problem : of the search, with all candidates
    stopped : when candidates were given up, by their places
    splits : how many there are of all rows, ``5 folds``

    Returns
    -------
    table with three more columns:

    ``score_part`` : the mean score of what a candidate was tried on, of the largest share of the
        rows; NaN where a fit failed
    ``behind`` : how much its mean score was below the best on the same splits when it was given
        up; NaN of all others
    ``stopped`` : "" of a candidate with all splits, else ``stopped after 2 of 5 folds, 3.1 points
        behind``, ``out of time after 2 of 5 folds`` or ``not tried``

    Of those that are added ``score_mean`` is NaN, and ``n_ok`` counts splits of all rows; the ones
    that were tried on the most come first.
    """
    import pandas as pd

    measure, n_splits = measure_of(problem.scorer.names[0]), len(problem.splits[SEARCH, WHOLE])
    by_share = cells.groupby(["candidate", "share"])["score"].agg(["size", "count", "mean"])
    largest = by_share.reset_index().drop_duplicates("candidate", keep="last")
    tried = {int(row.pop("candidate")): row for row in largest.to_dict("records")}
    nothing: dict[Any, Any] = {"share": 0.0, "size": 0, "count": 0, "mean": math.nan}
    states = list[dict[str, Any]]()
    for place, candidate in enumerate(problem.candidates):
        row, stop = tried.get(place, nothing), stopped.get(place)
        share, n, n_ok, score = (row[name] for name in ("share", "size", "count", "mean"))
        if share == WHOLE and n >= n_splits:
            continue
        state = {name: candidate.parameters[name] for name in problem.columns}
        state["candidate"] = place
        state["n_ok"] = n_ok if share == WHOLE else 0
        state["score_part"] = score if n_ok == n else math.nan
        state["behind"] = math.nan if stop is None or stop.behind is None else stop.behind
        state["stopped"] = in_words(stop or Stop(n, share, None), stop is not None, splits, measure)
        order = {"tried": (-share, -n), "tie": -round(state["score_part"], TIE_DECIMALS)}
        states.append(state | order)
    table = ranked.assign(score_part=ranked["score_mean"], behind=math.nan, stopped="")
    if not states:
        return table
    found = pd.DataFrame(states)
    of_ranked = table["candidate"].map(found.set_index("candidate")["stopped"])
    table["stopped"] = of_ranked.fillna("").astype(table["stopped"].dtype)
    found = found[~found["candidate"].isin(table["candidate"])]
    found = found.sort_values(["tried", "tie", *(problem.columns or ["candidate"])])
    found["rank"] = range(len(table) + 1, len(table) + len(found) + 1)
    found = found.reindex(columns=table.columns).astype(table.dtypes)
    return pd.concat([table, found], ignore_index=True)


def in_words(stop: Stop, is_given_up: bool, splits: str, measure: Measure) -> str:
    """How far a candidate got, and why no further.

    Parameters
    ----------
    stop : what it was tried on
    is_given_up : whether a strategy gave it up; else time ran out
    splits, measure : see ``with_unfinished``
    """
    if not stop.n_splits and not is_given_up:
        return NOT_TRIED
    words = "stopped" if is_given_up else "out of time"
    words += f" after {stop.n_splits} of {splits}"
    if stop.share < WHOLE:
        words = f"{words.partition(' after ')[0]} on {share_in_words(stop.share)} of the rows"
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
    """What a strategy tried and gave up: ``strategy`` of ``run.json``, ``StrategyMetadata``.

    Parameters
    ----------
    name : of the strategy
    candidates : as ``with_unfinished`` gives them
    cells : all rows of the search
    problem : of the search, with all candidates
    tasks : of the journal; their seconds are of this and earlier sessions, without compilation
    """
    fits = dict(sorted(Counter(cells["share"].tolist()).items()))
    seconds = dict.fromkeys(fits, 0.0)
    for task in tasks:
        of = [row["share"] for row in task["rows"] if row.get("stage") == SEARCH]
        if of and of[0] in seconds:
            seconds[of[0]] += max(0.0, task["seconds"] - task.get("compile_seconds", 0.0))
    states, n_splits = candidates["stopped"], len(problem.splits[SEARCH, WHOLE])
    first = dict[str, str]()
    for place, state in zip(candidates["candidate"], states, strict=True):
        first.setdefault(problem.candidates[place].algorithm, state)
    entries = {
        "name": name,
        "n_candidates": len(candidates),
        "fits": fits.get(WHOLE, 0),
        "share_fits": len(cells) - fits.get(WHOLE, 0),
        "grid_fits": len(candidates) * n_splits,
        "n_stopped": int(states.str.startswith("stopped").sum()),
        "n_out_of_time": int(states.str.startswith("out of time").sum()),
        "n_not_tried": int((states == NOT_TRIED).sum()),
        "left_out": {algorithm: state for algorithm, state in first.items() if state},
        "parts": [
            {"share": share, "fits": n, "seconds": seconds[share]} for share, n in fits.items()
        ],
    }
    return {"strategy": entries}
