"""The style shared by all figures; equal input gives equal files."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import (
    FixedLocator,
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
)

# From the palette of Okabe and Ito, which colour-blind readers tell apart
# (https://jfly.uni-koeln.de/color/).
BLUE = "#0072B2"
SKY = "#A9D3EC"
VERMILLION = "#D55E00"
INK = "#1F2933"
GREY = "#7B8794"
PALE = "#E9EDF1"
COLOUR_MAP = "viridis_r"  # perceptually uniform; the lowest error is the brightest

ON_COLOUR = "#1F2934"  # ink on a colour that stays in the dark
ON_DARK = "#FFFFFE"  # white on such a colour, which is no ground
WHITE = "#FFFFFF"

# Half the page's width; a figure that needs all of it takes WIDE, on a phone it has PHONE (inches).
NARROW, WIDE, PHONE = 5.4, 10.8, 3.6

# What the colours above become on dark ground; colour maps, and what is written on them, stay.
_DARK_GROUND = "#1D232A"
_DARK = {
    INK: "#E6EAEE", GREY: "#93A1AF", PALE: "#35404B", WHITE: _DARK_GROUND, BLUE: "#5AB0EA",
    SKY: "#2F617F", VERMILLION: "#FF8A3C", "#D3DAE1": "#3D4854",
}  # fmt: skip
_is_phone: ContextVar[bool] = ContextVar("phone", default=False)

_STYLE = {
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.facecolor": "none",
    "figure.dpi": 100,
    "figure.facecolor": "none",
    "figure.titlesize": 11.5,
    "figure.titleweight": "bold",
    "font.family": ["DejaVu Sans"],
    "font.size": 10,
    "hatch.linewidth": 0.8,
    "legend.borderaxespad": 0.2,
    "legend.borderpad": 0.1,
    "legend.fontsize": 9.5,
    "legend.frameon": False,
    "legend.handletextpad": 0.5,
    "savefig.dpi": 160,
    "svg.fonttype": "path",  # no reader needs our font
    "svg.hashsalt": "pleasingly",
    "text.color": INK,
    "text.parse_math": False,  # a class may be named "$"
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 9.5,
    "ytick.labelsize": 9.5,
}


def figure_style() -> AbstractContextManager[None]:
    """Draw and save inside this, whatever the reader's own matplotlib settings are."""
    return matplotlib.style.context(["default", _STYLE])


@contextmanager
def on_a_phone() -> Iterator[None]:
    """Draw inside this for a screen on which a figure is no wider than ``PHONE``."""
    token = _is_phone.set(True)
    try:
        yield
    finally:
        _is_phone.reset(token)


def is_phone() -> bool:
    """Return whether a figure is being drawn for a narrow screen."""
    return _is_phone.get()


def fitting(width: float) -> float:
    """Return a figure's width in inches, on the screen for which it is drawn."""
    return min(width, PHONE) if is_phone() else width


def one_axes(height: float, width: float = NARROW, **what: Any) -> tuple[Figure, Axes]:
    """Create a figure of that size in inches, and its axes with labels and scales of ``what``."""
    figure = Figure(figsize=(fitting(width), height), layout="constrained")
    return figure, figure.add_subplot(**what)


def svg_of(figure: Figure) -> bytes:
    """Return a figure as SVG, which is dark where its reader has asked for that."""
    file = BytesIO()
    with warnings.catch_warnings():
        # A class named in a script our font lacks is drawn as boxes; the page has its name.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        _lay_out_once(figure)
        figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue().replace(b"</style>", _dark_rules() + b"</style>", 1)


def _lay_out_once(figure: Figure) -> None:
    """Give everything its place now: matplotlib would find it anew, by drawing twice, each time
    that the figure is saved."""
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        figure.set_layout_engine(None)


def _dark_rules() -> bytes:
    rules = [
        f'[style*="{what}: {light.lower()}"] {{ {what}: {dark} !important }}'
        for light, dark in _DARK.items() for what in ("fill", "stroke")
    ]  # fmt: skip
    ground = f"svg {{ background: {_DARK_GROUND} }}"
    return f"@media (prefers-color-scheme: dark) {{ {ground} {' '.join(rules)} }}".encode()


def save(figure: Figure, folder: Path, name: str) -> Path:
    """Write ``name.svg`` and ``name.png`` into the folder; return the SVG."""
    path = folder / f"{name}.svg"
    path.write_bytes(svg_of(figure))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(folder / f"{name}.png", facecolor=WHITE)
    return path


def spans_a_decade(errors: np.ndarray) -> bool:
    """Return whether the non-zero errors need a logarithmic scale."""
    positive = errors[errors > 0]
    return positive.size > 1 and bool(positive.max() >= 10 * positive.min())


def error_norm(errors: np.ndarray) -> Normalize:
    """Return the colour scale of finite errors: logarithmic where they span a decade."""
    if spans_a_decade(errors):
        return LogNorm(errors[errors > 0].min(), errors.max(), clip=True)
    low, high = (errors.min(), errors.max()) if errors.size else (0.0, 1.0)
    if low == high:
        low, high = max(0.0, low - 0.01), high + 0.01
    return Normalize(low, high)


def percent_y_axis(axes: Axes, errors: np.ndarray) -> None:
    """Set scale, limits and percent labels of a y axis for these finite errors.

    Where they span a decade the scale is logarithmic; an error of 0 then has
    its own place under the smallest other one.
    """
    low, high = (float(errors.min()), float(errors.max())) if errors.size else (0.0, 1.0)
    if not spans_a_decade(errors):
        margin = 0.06 * (high - low) or 0.005
        axes.set_ylim(max(low - margin, -0.3 * margin), high + margin)
        percent_labels(axes.yaxis)
        return
    least = float(errors[errors > 0].min())
    ticks = log_ticks(least, high)
    if low > 0:
        axes.set_yscale("log")
        axes.set_ylim(low / 1.2, high * 1.2)
    else:
        axes.set_yscale("symlog", linthresh=least, linscale=0.25)
        axes.set_ylim(-0.35 * least, high * 1.2)
        ticks = [0.0, *ticks]
    percent_labels(axes.yaxis, ticks)


def percent_labels(axis: Axis, ticks: Sequence[float] | None = None) -> None:
    """Label an axis of fractions in percent, at the ticks or where they are round."""
    axis.set_major_locator(MaxNLocator(6) if ticks is None else FixedLocator(ticks))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.4g} %"))
    axis.set_minor_locator(NullLocator())


def log_ticks(low: float, high: float) -> list[float]:
    """Return the 1, 2, 5 of each decade from low to high; the 1 alone where that is many."""
    digits = (1, 2, 5) if high < 2000 * low else (1,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [float(f"{digit}e{power}") for power in powers for digit in digits]
    return [tick for tick in ticks if low * 0.999 <= tick <= high * 1.001]


def powers_of_ten(axis: Axis) -> None:
    """Label a logarithmic axis 10⁻³, 10⁻², ...; by plain numbers where it has less than two."""
    low, high = sorted(axis.get_view_interval())
    if low > 0 and math.floor(math.log10(high)) - math.ceil(math.log10(low)) < 1:
        axis.set_major_locator(MaxNLocator(5))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_locator(NullLocator())
        return
    axis.set_major_locator(LogLocator(numticks=7))
    axis.set_major_formatter(FuncFormatter(lambda value, _: power_of_ten(value)))
    axis.set_minor_formatter(NullFormatter())


def power_of_ten(value: float) -> str:
    """Return ``0.001`` as ``10⁻³``."""
    raised = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    return "10" + str(round(math.log10(value))).translate(raised) if value > 0 else "0"


def log10_labels(axis: Axis, values: Sequence[float] | np.ndarray, most: int = 11) -> None:
    """Set the ticks of an axis of log10 values: round numbers, or the values if they are few."""
    if len(values) <= 3:
        axis.set_major_locator(FixedLocator(list(values)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
    else:
        is_long = abs(values[-1] - values[0]) >= 3
        axis.set_major_locator(MaxNLocator(most, steps=[1, 2, 5, 10], integer=is_long))
