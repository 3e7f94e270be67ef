"""Figures and the HTML page of a run, drawn from its run folder alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["matplotlib_imported", "write_report"]


@contextmanager
def matplotlib_imported() -> Iterator[None]:
    """Turn the ValueError for a wrong MPLBACKEND or matplotlibrc into an ImportError.

    matplotlib reads both when it is imported, so the commands that draw need to catch one type of
    error only.
    """
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
        A run folder, which holds ``run.json`` and the files that the run wrote beside it. A
        section whose file is missing is left out of the page.

    Returns
    -------
    Path
        Path of the page, ``folder / "report.html"``.

    Raises
    ------
    pipelines.errors.InputError
        ``folder`` is not a run folder, or a file in it cannot be read.
    ImportError
        matplotlib cannot be imported.
    """
    with matplotlib_imported():  # here: --help does not wait for it
        from pipelines.report.page import write_page

    return write_page(folder)
