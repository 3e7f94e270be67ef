"""Cards and warnings of pages of searches: the strategy, and a time budget that ended a run."""

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
from pipelines.search.summary import fraction_in_words, untried_in_words


def strategy_cards(metadata: Mapping[str, Any]) -> list[Card]:
    """A card on the number of fits that a strategy made, out of those for the whole grid.

    Parameters
    ----------
    metadata : mapping
        ``run.json``.

    Returns
    -------
    list of Card
        Empty if the run has no strategy, or made all fits of the grid.
    """
    strategy = metadata.get("strategy")
    if not strategy or (strategy["fits"] == strategy["grid_fits"] and not strategy["share_fits"]):
        return []
    notes = [strategy["name"]]
    if strategy["n_stopped"]:
        notes = [f"{strategy['name']}: {count(strategy['n_stopped'], 'candidate')} stopped early"]
    if strategy["n_out_of_time"] or strategy["n_not_tried"]:
        notes.append("until the time budget ended")
    if strategy["share_fits"]:
        fractions = [part["share"] for part in strategy["parts"] if part["share"] < 1]
        fraction_text = fraction_in_words(fractions[0]) if len(fractions) == 1 else "fractions"
        notes.append(f"and {count(strategy['share_fits'], 'fit')} on {fraction_text} of the rows")
        times = (
            f"{duration(part['seconds'])} on "
            + (fraction_in_words(part["share"]) if part["share"] < 1 else "all")
            for part in strategy["parts"]
        )
        notes.append(f"tasks took {', '.join(times)}")
    return [Card("fits", f"{strategy['fits']:,} of {strategy['grid_fits']:,}", "; ".join(notes))]


def budget_warnings(metadata: Mapping[str, Any], run: Path) -> list[tuple[str, str]]:
    """A warning that the time budget ended a run, with the command that resumes it.

    Parameters
    ----------
    metadata : mapping
        ``run.json``.
    run : Path
        The run folder.

    Returns
    -------
    list of tuples
        A sentence and a command line; empty if everything was tried.
    """
    if not (untried_text := untried_in_words(metadata)):
        return []
    command = shlex.join([*program(metadata["command"]).split(), "--resume", str(run)])
    return [(f"Not tried: {untried_text}. To go on with it for as long again:", command)]


def are_drawn(record: SearchRecord) -> bool:
    """Whether the candidates of a run were drawn from distributions, not from a grid."""
    return record.options.strategy in DRAWING
