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
    ImportError
        When matplotlib cannot be imported.
    """
    try:
        from pipelines.report.page import write_page  # draws figures: --help does not wait for it
    except ValueError as error:  # of MPLBACKEND, or of matplotlib's own settings
        raise ImportError(f"matplotlib cannot be imported: {error}") from None

    return write_page(folder)
