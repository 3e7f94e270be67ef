"""Fits of any search, kept in a folder at once, so that a script started again finds them.

A fit is told from others by content: of the rows, the split, the estimator with its parameters,
the scorer, the sources of the script's own classes and functions, and the versions of the packages.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import pickletools
import sys
import threading
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import joblib

from pipelines.data.user_code import content_of
from pipelines.errors import error_line
from pipelines.run_folder.journal import Journal
from pipelines.search.calls import ANSWERS, COMMON, FitCalls

JOURNAL = "fits.jsonl"
PACKAGES = ("pleasingly", "scikit-learn", "numpy", "scipy")
SECONDS_BETWEEN_WRITES = 0.02  # quick fits are written together; a disk takes as long for each


class KeptFits:
    """The fits that are kept in a folder.

    Parameters
    ----------
    folder : made if it is not there

    Attributes
    ----------
    path : Path of the folder

    Raises
    ------
    InputError
        Another process is writing there.
    OSError
        It cannot be written.
    """

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder)
        self.path.mkdir(parents=True, exist_ok=True)
        self._journal = Journal(self.path / JOURNAL)
        self._results = {
            row["fit"]: json.loads(row["result"])
            for record in self._journal.records
            for row in record["rows"]
        }
        self._journal.records.clear()
        self._rows: list[dict[str, str]] = []
        self._written = 0.0
        self._lock = threading.Lock()  # searches on several threads keep their fits here
        self._digests = WeakKeyDictionary[FitCalls, list[str]]()
        self._hashes: list[tuple[Any, str]] = []  # of the last rows and targets

    def results(self, calls: FitCalls) -> dict[int, dict[str, Any]]:
        """The results that are kept, by the numbers of their calls.

        Raises
        ------
        ValueError
            The fits cannot be told from others, and none is kept.
        """
        try:
            digests = list(self._digests_of(calls))
        except Exception as error:  # whatever pickle says of an object that is not for it
            raise ValueError(error_line(error)) from error
        self._digests[calls] = digests
        return {
            number: self._results[digest]
            for number, digest in enumerate(digests)
            if digest in self._results
        }

    def keep(self, calls: FitCalls, number: int, result: dict[str, Any]) -> None:
        """Keep the result of a call; it is durable by the next ``write`` at the latest."""
        digest = self._digests[calls][number]
        plain = {name: value for name, value in result.items() if name != "parameters"}
        self._results[digest] = plain
        text = json.dumps(plain, default=lambda value: value.item())
        self._rows.append({"fit": digest, "result": text})
        if time.time() - self._written > SECONDS_BETWEEN_WRITES:
            self.write()

    def write(self) -> None:
        """Make durable what is kept."""
        with self._lock:
            if not self._rows:
                return
            rows, self._rows, self._written = self._rows, [], time.time()
            record = {"task": "fits", "started": self._written, "seconds": 0.0, "rows": rows}
            self._journal.append(record)
            self._journal.records.clear()

    def close(self) -> None:
        """Write what is left, and let others write to the folder."""
        self.write()
        self._journal.__exit__()

    def _digests_of(self, calls: FitCalls) -> Iterator[str]:
        """Yield what tells the fit of each call from all others."""
        first, candidates, splits = calls.first, dict[int, str](), dict[int, str]()
        common = {name: first.get(name) for name in (*COMMON, *ANSWERS) if name not in ("X", "y")}
        whole = [self._hash_of(first["X"]), self._hash_of(first["y"]), joblib.hash(common)]
        whole += [f"{name} {version(name)}" for name in PACKAGES] + sources_of(common)
        for (candidate, split), call in zip(calls.cells, calls.arguments, strict=True):
            if not calls.is_grid or candidate not in candidates:
                fitted = call["estimator"], call["parameters"]
                candidates[candidate] = " ".join([joblib.hash(fitted), *sources_of(fitted)])
            if split not in splits:
                splits[split] = joblib.hash((call["train"], call["test"]))
            words = *whole, candidates[candidate], splits[split]
            yield hashlib.sha256("\n".join(words).encode()).hexdigest()

    def _hash_of(self, rows: Any) -> str:
        """The hash of rows or targets: made once of each object while it is searched."""
        for known, digest in self._hashes:
            if known is rows:
                return digest
        digest = str(joblib.hash(rows))
        self._hashes = [*self._hashes[-3:], (rows, digest)]
        return digest


def sources_of(value: Any) -> list[str]:
    """What the code of the script's own classes and functions is by content, within an object.

    Raises
    ------
    Exception
        It cannot be pickled, or is defined where there is no file, as in a notebook.
    """
    names = {
        str(word)
        for operation, word, _ in pickletools.genops(pickle.dumps(value, protocol=2))
        if operation.name == "GLOBAL"
    }
    digests = dict[str, str]()
    for module, name in sorted(word.split(" ", 1) for word in names):
        if module == "__main__":
            path = getattr(sys.modules[module], "__file__", None)
            if path is None:
                raise ValueError(f"{name} is defined where there is no file")
            module = str(path)
        sources, versions = content_of(f"{module}:{name}")
        digests |= sources | versions
    return [f"{name} {digest}" for name, digest in sorted(digests.items())]
