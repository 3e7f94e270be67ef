"""Algorithms over several data sets: their mean ranks, and which cannot be told apart.

Demšar (Statistical comparisons of classifiers over multiple data sets, JMLR 7, 2006): the
Friedman test asks whether ranks differ at all, Nemenyi's which pairs do: those whose mean ranks
are further apart than the critical difference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from scipy.stats import friedmanchisquare, studentized_range

from pipelines.report.style import BLUE, VERMILLION, WIDE, one_axes
from pipelines.report.validation_page import ValidationRun
from pipelines.report.wording import shortened

FEWEST = 3  # data sets, and algorithms, that the Friedman test takes
LEVEL = 0.05


@dataclass(frozen=True)
class Ranks:
    """Mean ranks of algorithms over data sets; 1 is best.

    Attributes
    ----------
    means : of each algorithm
    n_sets : int
    p : float, of the Friedman test
    difference : float, between mean ranks that Nemenyi's test calls different
    """

    means: Mapping[str, float]
    n_sets: int
    p: float
    difference: float

    @property
    def cliques(self) -> list[list[str]]:
        """The largest groups of algorithms that are not told apart, by rank."""
        names = sorted(self.means, key=lambda name: self.means[name])
        found: list[list[str]] = []
        for i, first in enumerate(names):
            clique = [n for n in names[i:] if self.means[n] - self.means[first] < self.difference]
            if len(clique) > 1 and not any(set(clique) <= set(one) for one in found):
                found.append(clique)
        return found


def rank_over_sets(scores: pd.DataFrame) -> Ranks:
    """Rank algorithms by scores, larger is better.

    Parameters
    ----------
    scores : a row for each data set, a column for each algorithm; at least three of both
    """
    ranks = scores.rank(axis=1, ascending=False)
    n_sets, n_algorithms = scores.shape
    p = float(friedmanchisquare(*(scores[name] for name in scores)).pvalue)
    quantile = float(studentized_range.ppf(1 - LEVEL, n_algorithms, np.inf)) / math.sqrt(2)
    difference = quantile * math.sqrt(n_algorithms * (n_algorithms + 1) / (6 * n_sets))
    means = {str(name): float(mean) for name, mean in ranks.mean().items()}
    return Ranks(means, n_sets, p, difference)


def scores_of(runs: Sequence[ValidationRun]) -> pd.DataFrame | None:
    """Return scores of the algorithms that all runs have, each by its best candidate.

    Returns
    -------
    A row for each data set; None where they are too few, or runs score by something else.
    """
    if len({run.scoring for run in runs}) != 1:
        return None
    rows = {}
    for run in runs:
        about = run.record.dataset
        rows[about.fingerprint or str(run.path)] = {
            one.algorithm: one.score_mean for one in run.record.algorithms or ()
        }
    table = pd.DataFrame.from_dict(rows, orient="index").dropna(axis=1)
    return table if min(table.shape) >= FEWEST else None


def draw(ranks: Ranks) -> tuple[Figure, str]:
    """Draw the diagram of the critical difference, and what it shows in words."""
    best = min(ranks.means, key=lambda name: ranks.means[name])
    words = (
        f"Mean ranks of {len(ranks.means)} algorithms over {ranks.n_sets} data sets, the best is "
        f"{best} with {ranks.means[best]:.2f}; Friedman p = {ranks.p:.3g}, mean ranks that are "
        f"less than {ranks.difference:.2f} apart are not told apart (Nemenyi, {LEVEL:g})."
    )
    return critical_difference(ranks.means, ranks.cliques), words


def critical_difference(ranks: Mapping[str, float], cliques: Sequence[Sequence[str]]) -> Figure:
    """Draw mean ranks over data sets; a bar joins those that cannot be told apart.

    Parameters
    ----------
    ranks : of each algorithm
    cliques : names that no test tells apart
    """
    names = sorted(ranks, key=lambda name: ranks[name])
    n, joined = len(names), [clique for clique in cliques if len(clique) > 1]
    figure, axes = one_axes(
        1.2 + 0.28 * n + 0.18 * len(joined), WIDE, xlabel="mean rank over the data sets"
    )
    places = np.arange(n)
    axes.plot([ranks[name] for name in names], places, "o", color=BLUE)
    axes.set_yticks(places, [shortened(name.split(".")[-1], 28) for name in names])
    for i, clique in enumerate(joined):
        ends = [ranks[name] for name in clique]
        axes.plot([min(ends), max(ends)], [n + 0.6 * i] * 2, color=VERMILLION, lw=4,
                  solid_capstyle="butt")  # fmt: skip
    handles = [Line2D([], [], color=VERMILLION, lw=4, label="not told apart")] if joined else []
    if handles:
        axes.legend(handles=handles, loc="upper right")
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
    axes.margins(x=0.08)
    return figure
