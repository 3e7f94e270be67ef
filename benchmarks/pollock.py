"""How well files are read: ``read`` gives what the program takes a file of text for."""

from __future__ import annotations

from pathlib import Path

from pipelines.data.delimited import read_text_table


def read(path: str) -> tuple[list[str] | None, list[list[str | None]]]:
    """Return the names of a file's columns, None without a header, and its rows."""
    table = read_text_table(Path(path))
    rows = [list(row.values()) for row in table.cells.to_pylist()]
    return None if table.names is None else list(table.names), rows
