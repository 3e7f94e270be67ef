"""Figures and the HTML page of a run, drawn from its run folder alone."""

from __future__ import annotations

from pathlib import Path

__all__ = ["write_report"]


def write_report(folder: Path) -> Path:
    """Draw every figure of a run folder and write its ``report.html``.

    Parameters
    ----------
    folder : Path
        A run folder: it holds ``run.json`` and what the run wrote beside it.
        Pieces that are missing are left out of the page.

    Returns
    -------
    Path
        The page, ``folder / "report.html"``.

    Raises
    ------
    pipelines.errors.InputError
        When ``folder`` is no run folder, or a file in it cannot be read.
    """
    from pipelines.report.page import write_page

    return write_page(folder)
