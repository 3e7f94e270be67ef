"""A log of the searches of a process, with how many fits each asked for and took."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

SKIPPED = (
    "sklearn",
    "joblib",
    "pipelines",
    "imblearn",
    "skopt",
)  # packages between the script and joblib


@dataclass
class SearchEntry:
    """A search and how many fits it took.

    Attributes
    ----------
    name : str
        Name of its class or function.
    estimator : str
        Name of the estimator that it fits.
    script_line : str
        File and line of the script that called it.
    n_asked, n_made, n_kept : int
        Fits that were asked for, computed, and taken from an earlier run.
    seconds : float
        Wall-clock time.
    shared : set of str
        Names of the work that fits shared.
    n_at_limit : int
        Shared fits that ended at a limit of iterations.
    reason : str
        Why nothing was shared, if that is known.
    note : str
        A remark for the user.
    times : int
        Number of times it was called.
    """

    name: str
    estimator: str
    script_line: str = ""
    n_asked: int = 0
    n_made: int = 0
    n_kept: int = 0
    seconds: float = 0.0
    shared: set[str] = field(default_factory=set)
    n_at_limit: int = 0
    reason: str = ""
    note: str = ""
    times: int = 1

    @property
    def key(self) -> tuple[str, str, str]:
        """A key that is equal for repeated calls of the same search in a script."""
        return self.name, self.estimator, self.script_line

    def __str__(self) -> str:
        times = "" if self.times == 1 else f", {self.times:,} times"
        kept = f", {self.n_kept:,} kept from before" if self.n_kept else ""
        return (
            f"{self.name}({self.estimator}){times}: {self.n_asked:,} "
            f"fit{'s' * (self.n_asked != 1)} asked{kept}, {self.n_made:,} made, "
            f"{self.seconds:.3g} s" + (f"; {self.note}" if self.note else "")
        )

    def add(self, entry: SearchEntry) -> None:
        """Add the numbers of a further call of the same search."""
        self.n_asked += entry.n_asked
        self.n_made += entry.n_made
        self.n_kept += entry.n_kept
        self.seconds += entry.seconds
        self.shared |= entry.shared
        self.n_at_limit += entry.n_at_limit
        self.reason = self.reason or entry.reason
        self.note = self.note or entry.note
        self.times += entry.times


class SearchLog:
    """The searches of a process, in the order in which they ended."""

    def __init__(self) -> None:
        self.entries: list[SearchEntry] = []

    def by_search(self) -> list[SearchEntry]:
        """One entry per search; repeated calls, as in a loop, are added up."""
        entry_by_key = dict[tuple[str, str, str], SearchEntry]()
        for entry in self.entries:
            if entry.key in entry_by_key:
                entry_by_key[entry.key].add(entry)
            else:
                entry_by_key[entry.key] = SearchEntry(**vars(entry) | {"shared": set(entry.shared)})
        return list(entry_by_key.values())

    def lines(self) -> list[str]:
        """A line for each search."""
        return [str(entry) for entry in self.by_search()]

    def table(self) -> list[str]:
        """A table of the searches, as aligned lines of text; the first is the header."""
        rows = [("search", "estimator", "at", "asked", "kept", "made", "seconds", "shared")]
        rows += [
            (
                entry.name if entry.times == 1 else f"{entry.name} × {entry.times:,}",
                entry.estimator,
                entry.script_line,
                f"{entry.n_asked:,}",
                f"{entry.n_kept:,}",
                f"{entry.n_made:,}",
                f"{entry.seconds:.3g}",
                ", ".join(sorted(entry.shared)) or f"nothing: {entry.reason}",
            )
            for entry in self.by_search()
        ]
        widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
        is_number = [name in ("asked", "kept", "made", "seconds") for name in rows[0]]
        return ["  ".join(_aligned(row, widths, is_number)).rstrip() for row in rows]


def _aligned(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> Iterator[str]:
    for cell, width, is_right in zip(row, widths, right, strict=True):
        yield f"{cell:>{width}}" if is_right else f"{cell:<{width}}"


def entry_of(estimator: Any) -> SearchEntry:
    """An entry for the search whose fits joblib has just been given on this thread.

    Its name and the line of the script are found in the stack of calling functions.
    """
    name, is_class = "search", False
    caller: FrameType | None = sys._getframe(1)
    while caller is not None:
        module, frame_locals = caller.f_globals.get("__name__", ""), caller.f_locals
        if module.partition(".")[0] not in SKIPPED:
            break
        search = frame_locals.get("self")
        selects = module.startswith("sklearn.feature_selection") and hasattr(search, "fit")
        if not is_class and (hasattr(search, "_run_search") or selects):
            name, is_class = type(search).__name__, True
        elif not is_class and module.startswith("sklearn.model_selection") and search is None:
            function = caller.f_code.co_name  # the outermost one is the script's call
            name = name if function.startswith(("_", "<")) else function
        caller = caller.f_back
    script_line = ""
    if caller is not None:
        script_line = f"{caller.f_code.co_filename.rpartition('/')[2]}:{caller.f_lineno}"
    return SearchEntry(name, label_of(estimator), script_line)


def label_of(estimator: Any) -> str:
    """A short name of an estimator: its class, or the classes of a pipeline's steps."""
    steps = getattr(estimator, "steps", None)
    if type(estimator).__name__ == "Pipeline" and steps:
        return " + ".join(label_of(step) for _, step in steps)
    return estimator if isinstance(estimator, str) else type(estimator).__name__
