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

MOST_DECADES = 3  # by which a grid is advised to be wider at once
LARGEST_C = 1e6  # beyond which no grid is advised to go: solvers take ever longer there
# Where a run is kept is not part of the command that widens its grid.
NOT_REPEATED = {"--results": 1, "--resume": 1, "--extend": 1, "--accept-changed": 0}


def most_fits(metadata: Mapping[str, Any], n_candidates: int) -> str:
    """Return the fits of more candidates in words; a strategy may need fewer."""
    nested = metadata.get("options", {}).get("nested") or 0
    n = (n_splits_of(metadata) or 1) * (1 + nested) * n_candidates
    return f"{'at most ' if metadata.get('strategy') else ''}{n:,} fits"


@dataclass(frozen=True)
class GridBoundary:
    """The best candidate lies at an end of an axis, and beats its neighbour there."""

    name: str  # of the axis: C or gamma
    is_largest: bool

    def __str__(self) -> str:
        return f"the {'largest' if self.is_largest else 'smallest'} {self.name}"


def on_grid_boundary(candidates: pd.DataFrame, n_folds: int) -> list[GridBoundary]:
    """Return the ends of the grid where the best beats its neighbour by a standard error.

    Elsewhere the errors level off, and a wider grid would hardly have a better candidate. Its
    neighbour is the next one that was tried, and may have been given up.
    """
    if candidates.empty or not have_all_folds(candidates).iloc[0]:
        return []
    tried, best, found = without_untried(candidates), candidates.iloc[0], []
    behind, error = shortfall(tried), standard_error(float(best["score_std"]), n_folds)
    for name, other in (("C", "gamma"), ("gamma", "C")):
        values = sorted(candidates[name].unique())
        if len(values) < 2 or best[name] not in (values[0], values[-1]):
            continue
        is_largest = best[name] == values[-1]
        if name == "C" and is_largest and best[name] >= LARGEST_C * (1 - 1e-9):
            continue
        along = tried[(tried[other] == best[other]) & (tried[name] != best[name])]
        neighbour = along[name].sort_values(ascending=not is_largest, kind="stable").index[:1]
        if (behind[neighbour] > error).any():
            found.append(GridBoundary(name, is_largest))
    return found


def widen(
    argv: Sequence[str], options: Mapping[str, Any], at: Sequence[GridBoundary], run: Path
) -> tuple[str, int]:
    """Return the command that extends a run beyond these edges, and how many candidates it adds.

    In the same steps, so that the fits of the run need not be computed again: by about half as
    many decades more, at most ``MOST_DECADES``, to a round number where one is near.
    """
    changed, sizes = list[str](), {"c": int(options["n_c"]), "gamma": int(options["n_gamma"])}
    before = math.prod(sizes.values())
    for edge in at:
        axis = edge.name.lower()
        (low, high), n = options[f"log_{axis}"], sizes[axis]
        step, beyond = (high - low) / (n - 1), min(MOST_DECADES, max(1, (high - low) / 2))
        signed, end = (step, high) if edge.is_largest else (-step, low)
        room = math.log10(LARGEST_C) - high if edge == GridBoundary("C", True) else MOST_DECADES
        steps = range(1, max(1, int(min(room, MOST_DECADES) / step + 1e-9)) + 1)
        more = min(
            steps,
            key=lambda k: (
                round(end + k * signed, 1) != round(end + k * signed, 9),
                abs(k * step - beyond),
            ),
        )
        low, high = (low, high + more * step) if edge.is_largest else (low - more * step, high)
        sizes[axis] = n + more
        changed += [f"--log-{axis}", f"{low:.10g}", f"{high:.10g}", f"--n-{axis}", f"{n + more}"]
    n_values = {word: 2 if word.startswith("--log") else 1 for word in changed if word[:2] == "--"}
    n_values |= NOT_REPEATED
    kept, skip = list[str](), 0
    for word in as_typed(argv):
        flag, has_value = word.split("=")[0], "=" in word
        if skip:
            skip -= 1
        elif flag in n_values:
            skip = n_values[flag] - has_value
        else:
            kept.append(word)
    command = shlex.join([*kept, *changed, "--extend", str(run)])
    return command, math.prod(sizes.values()) - before
