"""Figures and the HTML page of a run, drawn from its run folder alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["matplotlib_imported", "write_report"]


@contextmanager
def matplotlib_imported() -> Iterator[None]:
    """Let an import fail as such where MPLBACKEND or matplotlib's settings are wrong."""
    try:
        yield
    except ValueError as error:
        words = " ".join(str(error).split())
        raise ImportError(f"matplotlib cannot be imported: {words}") from None


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
    with matplotlib_imported():  # here: --help does not wait for it
        from pipelines.report.page import write_page

    return write_page(folder)
