"""The boundary of a grid: whether the best candidate lies there, and the command that widens it.

The terminal and the page say the same, since both ask here.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipelines.errors import as_typed
from pipelines.run_folder.ranking import have_all_folds, shortfall, without_untried
from pipelines.run_folder.record import n_splits_of
from pipelines.run_folder.statistics import standard_error

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

MOST_DECADES = 3  # the most by which a wider grid is suggested at once
LARGEST_C = 1e6  # no larger C is suggested: solvers take ever longer there
# Options about the run's folder are not part of the command that widens its grid.
NOT_REPEATED = {"--results": 1, "--resume": 1, "--extend": 1, "--accept-changed": 0}


def most_fits(metadata: Mapping[str, Any], n_candidates: int) -> str:
    """The number of fits for more candidates, in words; a strategy may need fewer."""
    nested = metadata.get("options", {}).get("nested") or 0
    n = (n_splits_of(metadata) or 1) * (1 + nested) * n_candidates
    return f"{'at most ' if metadata.get('strategy') else ''}{n:,} fits"


@dataclass(frozen=True)
class GridBoundary:
    """An end of an axis at which the best candidate lies, clearly better than its neighbour.

    Attributes
    ----------
    name : {"C", "gamma"}
    is_largest : bool
        Whether it is the largest value of the axis, not the smallest.
    values : tuple of float
        The values of the axis, in ascending order.
    """

    name: str
    is_largest: bool
    values: tuple[float, ...] = ()

    def __str__(self) -> str:
        return f"the {'largest' if self.is_largest else 'smallest'} {self.name}"


def on_grid_boundary(candidates: pd.DataFrame, n_folds: int) -> list[GridBoundary]:
    """The ends of the grid at which the best candidate beats its neighbour by a standard error.

    Otherwise the errors level off, and a wider grid would hardly have a better candidate. The
    neighbour is the next value that was tried; a strategy may have given it up. Random candidates
    have no neighbour: the next C belongs to another gamma, and the next gamma to another C.
    """
    if candidates.empty or not have_all_folds(candidates).iloc[0]:
        return []
    attempts, best, boundaries = without_untried(candidates), candidates.iloc[0], []
    shortfalls, error = shortfall(attempts), standard_error(float(best["score_std"]), n_folds)
    for name, other in (("C", "gamma"), ("gamma", "C")):
        values = sorted(candidates[name].unique())
        if len(values) < 2 or best[name] not in (values[0], values[-1]):
            continue
        is_largest = best[name] == values[-1]
        if name == "C" and is_largest and best[name] >= LARGEST_C * (1 - 1e-9):
            continue
        other_values = attempts[name][attempts[name] != best[name]]
        neighbour_value = other_values.max() if is_largest else other_values.min()
        neighbour = shortfalls[
            (attempts[name] == neighbour_value) & (attempts[other] == best[other])
        ]
        if len(neighbour) and neighbour.iloc[0] > error:
            boundaries.append(GridBoundary(name, is_largest, tuple(map(float, values))))
    return boundaries


def widening_command(
    argv: Sequence[str], options: Mapping[str, Any], edges: Sequence[GridBoundary], run: Path
) -> tuple[str, int]:
    """The command that extends a run beyond these ends of its grid.

    The steps stay the same, so that no fit of the run is computed again. The grid grows by about
    half its decades, at most by ``MOST_DECADES``, to a round number if one is near. Values by hand
    continue at their mean distance.

    Parameters
    ----------
    argv : sequence of str
        The command line of the run.
    options : mapping of str
        The options of the run.
    edges : sequence of GridBoundary
    run : Path
        The folder of the run.

    Returns
    -------
    command : str
    n_candidates : int
        How many candidates it adds.
    """
    flags, axes = list[str](), ("c", "gamma")
    sizes = {name: len(options.get(name) or ()) or int(options[f"n_{name}"]) for name in axes}
    before = math.prod(sizes.values())
    for edge in edges:
        axis, n = edge.name.lower(), sizes[edge.name.lower()]
        by_hand = options.get(axis)
        low, high = (
            (math.log10(edge.values[i]) for i in (0, -1)) if by_hand else options[f"log_{axis}"]
        )
        step = (high - low) / (n - 1)
        n_more = _steps_beyond(edge, low, high, step)
        sizes[axis] = n + n_more
        end, signed = (high, step) if edge.is_largest else (low, -step)
        exponents = [end + k * signed for k in range(1, n_more + 1)]
        if by_hand:
            added_values = [f"{10**value:.6g}" for value in exponents]
            values = [
                str(number) if isinstance(number, str) else f"{number:.10g}" for number in by_hand
            ]
            flags += [f"--{axis}", ",".join(values + added_values)]
        else:
            low, high = min(low, *exponents), max(high, *exponents)
            flags += [
                f"--log-{axis}",
                f"{low:.10g}",
                f"{high:.10g}",
                f"--n-{axis}",
                str(n + n_more),
            ]
    n_values = {word: 2 if word.startswith("--log") else 1 for word in flags if word[:2] == "--"}
    n_values |= NOT_REPEATED
    words, skip = list[str](), 0
    for word in as_typed(argv):
        flag, has_value = word.split("=")[0], "=" in word
        if skip:
            skip -= 1
        elif flag in n_values:
            skip = n_values[flag] - has_value
        else:
            words.append(word)
    command = shlex.join([*words, *flags, "--extend", str(run)])
    return command, math.prod(sizes.values()) - before


def _steps_beyond(edge: GridBoundary, low: float, high: float, step: float) -> int:
    """By how many steps to extend a grid between these logarithms beyond its end."""
    decades = min(MOST_DECADES, max(1, (high - low) / 2))
    signed, end = (step, high) if edge.is_largest else (-step, low)
    largest_C = edge.name == "C" and edge.is_largest
    room = min(MOST_DECADES, math.log10(LARGEST_C) - high if largest_C else MOST_DECADES)
    return min(
        range(1, max(1, int(room / step + 1e-9)) + 1),
        key=lambda k: (
            round(end + k * signed, 1) != round(end + k * signed, 9),
            abs(k * step - decades),
        ),
    )
