"""The code of a notebook's cells, as a script."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

# What belongs to the notebook and not to Python: magics, shell commands, help.
NOT_PYTHON = ("%", "!", "?")


def code_of(path: Path, cells: Sequence[int] | None = None) -> str:
    """The code cells of a notebook, one below the other.

    Parameters
    ----------
    path : Path
        Of the notebook.
    cells : sequence of int, optional
        Which of its code cells, counted from 0; default: all.

    Returns
    -------
    str
        Their lines as they are, without magics and shell commands.
    """
    notebook = json.loads(path.read_text(encoding="utf-8"))
    sources = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    taken = sources if cells is None else [sources[index] for index in cells]
    lines = [line for source in taken for line in [*source.splitlines(), ""]]
    return "\n".join(line for line in lines if not line.lstrip().startswith(NOT_PYTHON))
