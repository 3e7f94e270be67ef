"""The figure a check wants in the table: the one thing worth knowing when it passed."""

from __future__ import annotations

FIGURES: list[str] = []


def note(figure: str) -> None:
    """Put ``figure`` into the table; outside of ``gpu_check`` it is merely kept."""
    FIGURES.append(figure)
