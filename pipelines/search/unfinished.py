"""Candidates that do not have all splits: given up, out of time, or not tried; and what that saved.

The table of candidates has them after those with all splits, and ``run.json`` counts them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from pipelines.run_folder.measures import Measure
from pipelines.run_folder.ranking import TIE_DECIMALS, UNFINISHED
from pipelines.search.strategies.base import WHOLE, Stop

if TYPE_CHECKING:
    import pandas as pd

NOT_TRIED = "not tried"
MOST_PARTS = 100  # a share of the rows is read as 1/3, beyond as a percentage


def with_unfinished(
    ranked: pd.DataFrame,
    cells: pd.DataFrame,
    parameters: Sequence[Mapping[str, Any]],
    stopped: Mapping[int, Stop],
    splits: str,
    measure: Measure,
) -> pd.DataFrame:
    """The ranked candidates, and after them those that do not have all splits.

    Parameters
    ----------
    ranked : those with all splits, best first, as ``reduce_scores`` gives them
    cells : all rows of the search, those of shares of the rows among them
    parameters : of every candidate, by its place; those that ``ranked`` has a column of are told
    stopped : when candidates were given up, by their places
    splits : how many there are, ``5 folds``
    measure : of the scores

    Returns
    -------
    table with three more columns:

    ``score_part`` : the mean score of what a candidate was tried on, of the largest share of the
        rows; NaN where a fit failed
    ``behind`` : how much its mean score was below the best on the same splits when it was given
        up; NaN of all others
    ``stopped`` : "" of a candidate with all splits, else ``stopped after 2 of 5 folds, 3.1 points
        behind``, ``out of time after 2 of 5 folds`` or ``not tried``

    ``score_mean`` is NaN where there are splits to come, and ``n_ok`` counts splits of all rows.
    Those that were tried on the most come first.
    """
    import pandas as pd

    whole = set(ranked["candidate"])
    parts = cells[~cells["candidate"].isin(whole)].groupby(["candidate", "share"])["score"]
    by_share = parts.agg(["size", "count", "mean"]).reset_index()
    largest = by_share.drop_duplicates("candidate", keep="last").set_index("candidate")
    found = list[dict[str, Any]]()
    for place, values in enumerate(parameters):
        if place in whole:
            continue
        share, n, n_ok, score = 0.0, 0, 0, math.nan
        if place in largest.index:
            share, n, n_ok, score = largest.loc[place]
        stop = stopped.get(place)
        row = {name: value for name, value in values.items() if name in ranked} | {
            "candidate": place,
            "n_ok": int(n_ok) if share == WHOLE else 0,
            "score_part": score if n_ok == n else math.nan,
            "behind": math.nan if stop is None or stop.behind is None else stop.behind,
            "stopped": in_words(stop or Stop(int(n), share, None), stop is not None, splits, measure),
        }
        found.append(row | {"tried": (-share, -n), "tie": -round(row["score_part"], TIE_DECIMALS)})
    table = ranked.assign(score_part=ranked["score_mean"], behind=math.nan, stopped="")
    if not found:
        return table
    first = [name for name in map(str, ranked) if name in found[0] and name != "n_ok"]
    more = pd.DataFrame(found).sort_values(["tried", "tie", *first], ignore_index=True)
    more["rank"] = range(len(ranked) + 1, len(ranked) + len(more) + 1)
    more = more.reindex(columns=table.columns)
    return pd.concat([table, more.astype(table.dtypes)], ignore_index=True)


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


def share_in_words(share: float) -> str:
    """A share as it is read: ``1/3``, ``4.2 %``."""
    fraction = Fraction(share).limit_denominator(MOST_PARTS)
    return str(fraction) if math.isclose(fraction, share, rel_tol=1e-6) else f"{share:.2%}"


def strategy_entries(
    name: str,
    candidates: pd.DataFrame,
    cells: pd.DataFrame,
    n_splits: int,
    tasks: Iterable[Mapping[str, Any]],
    stage: str,
) -> dict[str, Any]:
    """What a strategy tried and gave up, ``StrategyMetadata``.

    Parameters
    ----------
    name : of the strategy
    candidates : as ``with_unfinished`` gives them
    cells : all rows of the search
    n_splits : of each candidate
    tasks : of the journal; their seconds are of this and earlier sessions, without compilation
    stage : of the search
    """
    fits = cells.groupby("share").size()
    seconds = dict.fromkeys(fits.index, 0.0)
    for task in tasks:
        of = [row["share"] for row in task["rows"] if row.get("stage") == stage]
        if of and of[0] in seconds:
            seconds[of[0]] += max(0.0, task["seconds"] - task.get("compile_seconds", 0.0))
    states = candidates["stopped"]
    return {
        "name": name,
        "n_candidates": len(candidates),
        "fits": int(fits.get(WHOLE, 0)),
        "share_fits": int(fits.drop(WHOLE, errors="ignore").sum()),
        "grid_fits": len(candidates) * n_splits,
        "n_stopped": int(states.str.startswith("stopped").sum()),
        "n_out_of_time": int(states.str.startswith("out of time").sum()),
        "n_not_tried": int((states == NOT_TRIED).sum()),
        "parts": [
            {"share": float(share), "fits": int(n), "seconds": seconds[share]}
            for share, n in fits.items()
        ],
    }


def without_state(best: pd.Series) -> pd.Series:
    """A candidate less the columns that say what it was tried on."""
    return best.drop(["n_ok", "rank", *UNFINISHED], errors="ignore")
