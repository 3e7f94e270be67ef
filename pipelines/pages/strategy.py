"""What pages of searches say of a strategy, and of a time budget that ended a run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.errors import program
from pipelines.report.parts import Card
from pipelines.report.wording import count, duration
from pipelines.search.record import SearchRecord
from pipelines.search.strategies import DRAWING
from pipelines.search.summary import left_by_budget, share_in_words


def strategy_cards(metadata: Mapping[str, Any]) -> list[Card]:
    """A card on the fits that were made, of those that a whole grid has; none where that is all."""
    spent = metadata.get("strategy")
    if not spent or (spent["fits"] == spent["grid_fits"] and not spent["share_fits"]):
        return []
    notes = [spent["name"]]
    if spent["n_stopped"]:
        notes = [f"{spent['name']}: {count(spent['n_stopped'], 'candidate')} stopped early"]
    if spent["n_out_of_time"] or spent["n_not_tried"]:
        notes.append("until the time budget ended")
    if spent["share_fits"]:
        shares = [part["share"] for part in spent["parts"] if part["share"] < 1]
        of = share_in_words(shares[0]) if len(shares) == 1 else "fractions"
        notes.append(f"and {count(spent['share_fits'], 'fit')} on {of} of the rows")
        times = (
            f"{duration(part['seconds'])} on "
            + (share_in_words(part["share"]) if part["share"] < 1 else "all")
            for part in spent["parts"]
        )
        notes.append(f"tasks took {', '.join(times)}")
    return [Card("fits", f"{spent['fits']:,} of {spent['grid_fits']:,}", "; ".join(notes))]


def budget_warnings(metadata: Mapping[str, Any], run: Path) -> list[tuple[str, str]]:
    """A sentence on what was not tried as time ended, and how to go on; none where all was.

    Parameters
    ----------
    metadata : ``run.json``
    run : its folder
    """
    if not (left := left_by_budget(metadata)):
        return []
    command = shlex.join([*program(metadata["command"]).split(), "--resume", str(run)])
    return [(f"Not tried: {left}. To go on with it for as long again:", command)]


def are_drawn(record: SearchRecord) -> bool:
    """Whether the candidates of a run were drawn, so that they are no grid."""
    return record.options.strategy in DRAWING
