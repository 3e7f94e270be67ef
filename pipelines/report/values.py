"""Values of a figure that the page shows under the pointer or with the arrow keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

MOST_VALUES = 3_000  # of a figure; with more, none is shown, as the page would be slow
MOST_OF_LINE = 300  # points of a line that have a text


class Values(Artist):
    """Texts at positions of axes. The artist draws nothing, but belongs to its axes.

    Parameters
    ----------
    x, y : array-like of shape (n,)
        Centres in data coordinates.
    texts : sequence of str
        Text at each position.
    half : tuple of two, each a number or array-like of shape (n,), default (0.0, 0.0)
        Half the width and half the height of the cell or bar at each position, in data
        coordinates; 0 for a dot.
    """

    def __init__(
        self, x: Any, y: Any, texts: Sequence[str], half: tuple[Any, Any] = (0.0, 0.0)
    ) -> None:
        super().__init__()
        self.centres = np.stack([np.asarray(x, float), np.asarray(y, float)], axis=1)
        self.half = np.stack(
            [np.broadcast_to(half_extent, len(texts)) for half_extent in half], axis=1
        )
        self.texts = texts
        self.set_in_layout(False)

    def draw(self, renderer: Any) -> None:
        """Draw nothing."""


def add_values(
    axes: Axes, x: Any, y: Any, texts: Sequence[str], half: tuple[Any, Any] = (0.0, 0.0)
) -> None:
    """Add texts at positions of axes; for the parameters see ``Values``."""
    if len(texts):
        axes.add_artist(Values(x, y, texts, half))


def is_crowded(figure: Figure) -> bool:
    """Whether a figure has more than ``MOST_VALUES`` texts, and shows none of them."""
    artists = cast(list[Values], figure.findobj(Values))
    return sum(len(artist.texts) for artist in artists) > MOST_VALUES


def figure_values(figure: Figure) -> list[str]:
    """Positions and texts of a figure, for the page.

    Parameters
    ----------
    figure : Figure
        Already drawn, as its layout decides the positions.

    Returns
    -------
    list of str
        Lines of the form ``x y w h text``: the centre from the left and from the top, and half the
        width and height, in thousandths of the figure's width and height. Empty for a figure that
        ``is_crowded``.
    """
    if is_crowded(figure):
        return []
    artists = cast(list[Values], figure.findobj(Values))
    lines = []
    size = np.array([figure.bbox.width, figure.bbox.height])
    for artist in artists:
        assert artist.axes is not None
        to_pixels = artist.axes.transData.transform
        low, high = (to_pixels(artist.centres + sign * artist.half) for sign in (-1, 1))
        middle, half = (low + high) / 2 / size, abs(high - low) / 2 / size
        middle[:, 1] = 1 - middle[:, 1]  # matplotlib counts from the bottom, a page from the top
        numbers = np.hstack([middle, half])
        for position, text in zip(1000 * numbers, artist.texts, strict=True):
            if np.isfinite(position).all():
                coordinates = " ".join(f"{number:.4g}" for number in position)
                lines.append(f"{coordinates} {' '.join(text.split())}")
    return lines
