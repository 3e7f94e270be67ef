"""Style of all figures, and how they are saved: equal input gives equal files."""

from __future__ import annotations

import math
import re
import warnings
from contextlib import AbstractContextManager
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from pipelines.run_folder.names import replacing

# From the palette of Okabe and Ito (2002), which colour-blind readers tell apart:
# https://jfly.uni-koeln.de/color/
BLUE = "#0072B2"
SKY = "#A9D3EC"
VERMILLION = "#D55E00"
INK = "#1F2933"
GREY = "#7B8794"
PALE = "#E9EDF1"
COLOUR_MAP = "viridis"  # perceptually uniform; small values are dark, large ones bright

# Text on a colour that is the same on light and dark pages. On any colour, black or white text has
# a contrast of at least 4.58; with an ink lighter than black, some would miss the 4.5 of WCAG.
ON_COLOUR = "#000001"
ON_DARK = "#FFFFFE"
WARM_INK = "#A84300"  # vermillion for text, darker because strokes of letters are thin
WHITE = "#FFFFFF"

# Width of a figure in inches: half a page, and a full page.
NARROW, WIDE = 5.4, 10.8

# Colours on a dark page. Colour maps and the text on them are the same on both.
_DARK_GROUND = "#1D232A"
_DARK = {
    INK: "#E6EAEE",
    GREY: "#93A1AF",
    PALE: "#35404B",
    WHITE: _DARK_GROUND,
    BLUE: "#5AB0EA",
    SKY: "#2F617F",
    VERMILLION: "#FF8A3C",
    WARM_INK: "#FF8A3C",
    "#D3DAE1": "#3D4854",
}

_STYLE = {
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.facecolor": "none",
    "path.simplify": False,  # it would drop dots, which are very short lines
    "figure.facecolor": "none",
    "figure.titlesize": 11.5,
    "figure.titleweight": "bold",
    "font.family": ["DejaVu Sans"],
    "font.size": 10,
    "legend.fontsize": 9.5,
    "legend.frameon": False,
    "savefig.dpi": 160,
    "svg.fonttype": "path",  # readers need not have the font
    "svg.hashsalt": "pleasingly",
    "text.color": INK,
    "text.parse_math": False,  # a class may have the name "$"
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 9.5,
    "ytick.labelsize": 9.5,
}


def figure_style() -> AbstractContextManager[None]:
    """Context in which figures are drawn and saved, whatever the user's matplotlib settings are."""
    return matplotlib.style.context(["default", _STYLE])


def one_axes(height: float, width: float = NARROW, **properties: Any) -> tuple[Figure, Axes]:
    """A figure of a size in inches with one pair of axes, whose properties are the keywords."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot(**properties)


def save(figure: Figure, folder: Path, name: str) -> Path:
    """Save a figure as ``name.svg`` and ``name.png`` in a folder; the path of the SVG."""
    path, file = folder / f"{name}.svg", BytesIO()
    with warnings.catch_warnings():
        # A name in a script that the font lacks is drawn as boxes; the page has it as text.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        engine = figure.get_layout_engine()
        if engine is not None:
            # Laid out once for both files: matplotlib would do it at each save, by drawing twice.
            engine.execute(figure)
            figure.set_layout_engine(None)
        figure.savefig(file, format="svg", metadata=_NO_METADATA)
        with replacing(path) as unfinished:
            unfinished.write_bytes(_reduced(file.getvalue()))
        with replacing(path.with_suffix(".png")) as unfinished:
            figure.savefig(unfinished, format="png", facecolor=WHITE)
    return path


_NO_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))
# Factors of scale keep all digits. Comments go: they repeat texts, which are drawn as paths.
_DISPENSABLE = re.compile(rb"scale\([^)]*\)|<!--.*?-->|\n\s*|(-?\d+\.\d\d)\d+", re.DOTALL)


def _reduced(svg: bytes) -> bytes:
    """Shorten an SVG to a third of its bytes, and give it colours for dark pages.

    Coordinates are cut to hundredths of a point, a difference that no screen shows.
    """

    def replacement(match: re.Match[bytes]) -> bytes:
        text = match[0]
        return match[1] or (text if text.startswith(b"scale") else b"\n" * text.isspace())

    dark = f"@media (prefers-color-scheme: dark) {{ {DARK_RULES} }}"
    return _DISPENSABLE.sub(replacement, svg).replace(b"</style>", dark.encode() + b"</style>", 1)


# CSS for dark pages, in the SVG file of a figure and in a page with all its figures.
DARK_RULES = " ".join(
    [
        f"svg {{ background: {_DARK_GROUND} }}",
        *(
            f"[style*='{what}: {light.lower()}'] {{ {what}: {dark} !important }}"
            for light, dark in _DARK.items()
            for what in ("fill", "stroke")
        ),
    ]
)
_NOT_INLINE = re.compile(r"<style.*?</style>|\sxmlns(:xlink)?=\"[^\"]*\"", re.DOTALL)
_SIZE = re.compile(r'(<svg[^>]*?) width="[^"]*" height="[^"]*"')
_REFERENCE = re.compile(r'(href="#|url\(#)([^")]+)')


def inline(svg: str, name: str) -> str:
    """An SVG to insert into a page whose style sheet has ``DARK_RULES``.

    Its identifiers get ``name`` as a prefix, since figures of one page must not share them.
    Identifiers that nothing refers to are removed.
    """
    svg = _NOT_INLINE.sub("", svg[svg.index("<svg") :])
    svg = _SIZE.sub(r'\1 aria-hidden="true" focusable="false"', svg, count=1)
    referenced_ids = {match[2] for match in _REFERENCE.finditer(svg)}

    def renamed_id(match: re.Match[str]) -> str:
        return f' id="{name}-{match[1]}"' if match[1] in referenced_ids else ""

    return _REFERENCE.sub(rf"\g<1>{name}-\g<2>", re.sub(r' id="([^"]*)"', renamed_id, svg))


def spans_a_decade(fractions: np.ndarray) -> bool:
    """Whether fractions need a logarithmic scale; never if one is 0, which has no logarithm."""
    return bool(fractions.size and 0 < 10 * fractions.min() <= fractions.max())


def percent_axis(axis: Axis, fractions: np.ndarray | None = None) -> None:
    """Label an axis of fractions in percent.

    Parameters
    ----------
    axis : Axis
    fractions : float array, optional
        Finite values on a y axis, which then gets limits around them and a logarithmic scale if
        they span a decade.
    """
    is_log = False
    if fractions is not None:
        low, high = (fractions.min(), fractions.max()) if fractions.size else (0.0, 1.0)
        if is_log := spans_a_decade(fractions):
            axis.axes.set_yscale("log")
            axis.axes.set_ylim(low / 1.2, high * 1.2)
        else:
            margin = 0.06 * (high - low) or 0.005
            axis.axes.set_ylim(max(low - margin, -0.3 * margin), high + margin)
    percent_labels(axis, is_log)


def percent_labels(axis: Axis, is_log: bool = False) -> None:
    """Label an axis of fractions in percent, at round values."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)) if is_log else MaxNLocator(6))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.4g} %"))
    axis.set_minor_locator(NullLocator())


def powers_of_ten(axis: Axis) -> None:
    """Label a logarithmic axis 10⁻³, 10⁻², ...; with plain numbers if it has fewer than two."""
    low, high = sorted(axis.get_view_interval())
    if low > 0 and math.floor(math.log10(high)) - math.ceil(math.log10(low)) < 1:
        axis.set_major_locator(MaxNLocator(5))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_locator(NullLocator())
        return
    raised = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    axis.set_major_locator(LogLocator(numticks=7))
    axis.set_major_formatter(
        FuncFormatter(lambda value, _: f"10{str(round(math.log10(value))).translate(raised)}")
    )
    axis.set_minor_formatter(NullFormatter())
