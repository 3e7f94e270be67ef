"""Values of a figure, told by the page under the pointer or the arrow keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

MOST_VALUES = 3_000  # of a figure: beyond, its page would be slow
MOST_OF_LINE = 300  # vertices of a line that are told


class Values(Artist):
    """Texts for places of axes. The artist draws nothing: it goes where its axes go.

    Parameters
    ----------
    x, y : of length n, in data coordinates
    texts : what is read at each place
    half : half the width and half the height of what is there, such as a cell or a bar, in data
        coordinates, each a number or of length n; 0 of a dot
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
    """Tell texts at places of some axes; see ``Values``."""
    if len(texts):
        axes.add_artist(Values(x, y, texts, half))


def is_crowded(figure: Figure) -> bool:
    """Whether a figure has more than ``MOST_VALUES`` places."""
    artists = cast(list[Values], figure.findobj(Values))
    return sum(len(artist.texts) for artist in artists) > MOST_VALUES


def figure_values(figure: Figure) -> list[str]:
    """What a figure tells, a line for each place: ``x y w h text``.

    The numbers are thousandths of the figure's width and height: the centre from the left and
    from the top, and half the size. Positions are right once the figure has been drawn. A figure
    that ``is_crowded`` tells nothing.
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
        middle[:, 1] = 1 - middle[:, 1]
        numbers = np.hstack([middle, half])
        for position, text in zip(1000 * numbers, artist.texts, strict=True):
            if np.isfinite(position).all():
                coordinates = " ".join(f"{number:.4g}" for number in position)
                lines.append(f"{coordinates} {' '.join(text.split())}")
    return lines
