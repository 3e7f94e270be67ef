"""The scripts, by where they are published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Repository:
    """A public repository.

    Attributes
    ----------
    name : str
        ``owner/name`` at GitHub.
    revision : str
        The tag or commit of the scripts.
    """

    name: str
    revision: str

    @property
    def folder(self) -> str:
        """The folder of its checkout."""
        return self.name.split("/")[1]


@dataclass(frozen=True)
class Script:
    """A script, or cells of a notebook.

    Attributes
    ----------
    repository : Repository
    path : str
        In the repository.
    cells : tuple of int or None
        Code cells of a notebook, counted from 0; None: all.
    addresses : mapping of str to str
        Addresses that the script reads tables from, each with the copy in a checkout.
    """

    repository: Repository
    path: str
    cells: tuple[int, ...] | None = None
    addresses: Mapping[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """Its path below the folder of the checkouts."""
        return f"{self.repository.folder}/{self.path}"

    @property
    def name(self) -> str:
        """Its place, with the cells of a notebook."""
        if self.cells is None:
            return self.place
        return f"{self.place} [{_ranges(self.cells)}]"


def clone_line(repository: Repository) -> str:
    """The command that brings a checkout into the folder where it is called."""
    address = f"https://github.com/{repository.name}"
    return f"git clone {address} && git -C {repository.folder} checkout -q {repository.revision}"


def _ranges(cells: tuple[int, ...]) -> str:
    """``0, 2-4`` for 0, 2, 3, 4."""
    runs: list[list[int]] = []
    for cell in cells:
        if runs and runs[-1][-1] == cell - 1:
            runs[-1].append(cell)
        else:
            runs.append([cell])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


SCRIPTS: tuple[Script, ...] = ()
LEFT_OUT: dict[str, str] = {}
