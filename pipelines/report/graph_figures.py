"""The figures of PageRank: how it converges, how ranks are distributed, what a variant costs."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from pipelines.report.style import GREY, INK, VERMILLION, one_axes, powers_of_ten


def convergence(iterations: pd.DataFrame, tol: float | None) -> Figure:
    """The L1 norm of the change against the iteration, a line for each variant.

    Parameters
    ----------
    iterations : DataFrame
        variant, iteration, change.
    tol : float or None
        The change that ends the iteration.
    """
    figure, axes = one_axes(3.6, xlabel="iteration", ylabel="L1 norm of the change", yscale="log")
    shown = iterations[iterations["change"] > 0]
    for i, (variant, lines) in enumerate(shown.groupby("variant", sort=False)):
        axes.plot(
            lines["iteration"], lines["change"], marker="." if len(lines) < 60 else None,
            color=VERMILLION if i == 0 else GREY, zorder=3 if i == 0 else 2,
            label=str(variant) if i == 0 else None,
        )  # fmt: skip
    if tol:
        axes.axhline(tol, color=INK, linewidth=0.8, linestyle="--")
        axes.annotate(f"tol {tol:g}", (1, tol), xytext=(0, 4), textcoords="offset points")
    powers_of_ten(axes.yaxis)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="upper right")
    return figure


def distribution(bounds: np.ndarray, counts: np.ndarray) -> Figure:
    """How many nodes have which rank, both on logarithmic axes.

    Parameters
    ----------
    bounds : float64 of shape (n + 1,)
    counts : of shape (n,)
    """
    figure, axes = one_axes(3.6, xlabel="rank", ylabel="nodes", xscale="log", yscale="log")
    axes.stairs(counts, bounds, fill=True, color=VERMILLION, alpha=0.75, baseline=0.5)
    axes.set_ylim(0.5, 2 * max(1.0, float(counts.max(initial=1))))
    powers_of_ten(axes.xaxis)
    powers_of_ten(axes.yaxis)
    axes.grid(alpha=0.3)
    return figure


def times(variants: pd.DataFrame) -> Figure:
    """Milliseconds of an iteration of each variant, and its preparation, fastest at the top.

    Parameters
    ----------
    variants : DataFrame
        variant, iteration_ms, preparing_ms.
    """
    ordered = variants.sort_values("iteration_ms", ascending=False)
    place = np.arange(len(ordered))
    figure, axes = one_axes(1.4 + 0.3 * len(ordered), xlabel="milliseconds", xscale="log")
    axes.barh(place, ordered["iteration_ms"], height=0.6, color=VERMILLION, label="an iteration")
    prepared = ordered["preparing_ms"].to_numpy()
    axes.plot(
        np.where(prepared > 0, prepared, np.nan), place, "|", color=INK, markersize=11,
        markeredgewidth=2, label="before the first",
    )  # fmt: skip
    axes.set_yticks(place, ordered["variant"])
    powers_of_ten(axes.xaxis)
    axes.grid(alpha=0.3, axis="x")
    figure.legend(loc="outside upper left", ncols=2)
    return figure
