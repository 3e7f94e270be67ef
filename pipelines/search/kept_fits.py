"""Keeps the fits of searches in a folder, so that a script that is started again finds them.

A fit is identified by content: a digest of the rows, the split, the estimator with its parameters,
the scorer, the source of the script's own classes and functions, and the versions of the packages.
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
from operator import attrgetter
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

import joblib
import numpy as np
from sklearn import get_config

from pipelines.data.user_code import content_of
from pipelines.errors import error_line
from pipelines.run_folder.journal import Journal
from pipelines.search.calls import COMMON_ARGUMENTS, RETURN_OPTIONS, FitCalls
from pipelines.search.shared import shared_fit_packages

JOURNAL = "fits.jsonl"
PACKAGES = ("pleasingly", "scikit-learn", "numpy", "scipy")
NO_RESULTS = ("working_memory", "pairwise_dist_chunk_size", "print_changed_only", "display")
SECONDS_BETWEEN_WRITES = 0.02  # quick fits are written together, as a disk takes this long for each


class KeptFits:
    """The fits that are kept in a folder.

    Parameters
    ----------
    folder : str or Path
        Created if it does not exist.

    Raises
    ------
    InputError
        Another process is writing to the folder.
    OSError
        The folder cannot be written.
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

    def results(self, calls: FitCalls) -> dict[int, dict[str, Any]]:
        """The kept results of a search, by call number.

        Raises
        ------
        ValueError
            The fits cannot be identified, so that none can be kept.
        """
        try:
            digests = list(self._digests_of(calls))
        except Exception as error:  # pickle raises errors of many types
            raise ValueError(error_line(error)) from error
        self._digests[calls] = digests
        return {
            number: self._results[digest]
            for number, digest in enumerate(digests)
            if digest in self._results
        }

    def keep(self, calls: FitCalls, number: int, result: dict[str, Any]) -> None:
        """Keep the result of a call; it is on disk after the next ``write`` at the latest.

        A failed fit is not kept, as it may succeed next time. Neither is one with a score that is
        not a Python or numpy number.
        """
        if result["fit_error"] is not None:
            return
        digest = self._digests[calls][number]
        plain_result = {name: value for name, value in result.items() if name != "parameters"}
        try:
            text = json.dumps(plain_result, default=lambda value: value.item())
        except (AttributeError, TypeError, ValueError):
            return
        self._results[digest] = plain_result
        self._rows.append({"fit": digest, "result": text})
        if time.time() - self._written > SECONDS_BETWEEN_WRITES:
            self.write()

    def write(self) -> None:
        """Write the kept results that are not on disk yet."""
        with self._lock:
            if not self._rows:
                return
            rows, self._rows, self._written = self._rows, [], time.time()
            record = {"task": "fits", "started": self._written, "seconds": 0.0, "rows": rows}
            self._journal.append(record)
            self._journal.records.clear()

    def close(self) -> None:
        """Write the remaining results and release the folder."""
        self.write()
        self._journal.__exit__()

    def _digests_of(self, calls: FitCalls) -> Iterator[str]:
        """Yield a digest of everything that the result of each call depends on.

        Raises
        ------
        Exception
            Something in the calls cannot be pickled or has no source.
        """
        if not calls.is_grid:
            raise ValueError("they are of different data")
        first, candidates, splits = calls.first, dict[int, str](), dict[int, str]()
        common = {
            name: first.get(name)
            for name in (*COMMON_ARGUMENTS, *RETURN_OPTIONS)
            if name not in ("X", "y")
        }
        common_words = [joblib.hash(first["X"]), joblib.hash(first["y"]), joblib.hash(common)]
        packages = (*PACKAGES, *shared_fit_packages())
        common_words += [f"{name} {version(name)}" for name in packages] + sources_of(common)
        config = {name: value for name, value in get_config().items() if name not in NO_RESULTS}
        common_words.append(joblib.hash(config))
        for (candidate, split), call in zip(calls.cells, calls.arguments, strict=True):
            if candidate not in candidates:
                unfitted_estimator = call["estimator"], call["parameters"]
                candidates[candidate] = " ".join(
                    [joblib.hash(unfitted_estimator), *sources_of(unfitted_estimator)]
                )
            if split not in splits:
                splits[split] = joblib.hash((call["train"], call["test"]))
            words = *common_words, candidates[candidate], splits[split]
            yield hashlib.sha256("\n".join(words).encode()).hexdigest()


def sources_of(value: Any) -> list[str]:
    """Digests of the script's own classes and functions within an object.

    They cover the sources and the values that the code reads from the script's modules, such as a
    constant that an option sets; not what it reads from files or the environment.

    Raises
    ------
    Exception
        The object cannot be pickled, or is defined without a file, as in a notebook.
    """
    names = {
        str(word)
        for operation, word, _ in pickletools.genops(pickle.dumps(value, protocol=2))
        if operation.name == "GLOBAL"
    }
    digests = dict[str, str]()
    for module, name in sorted(word.split(" ", 1) for word in names):
        path = module
        if module == "__main__":
            file = getattr(sys.modules[module], "__file__", None)
            if file is None:
                raise ValueError(f"{name} is defined where there is no file")
            path = str(file)
        sources, versions = content_of(f"{path}:{name}")
        digests |= sources | versions
        if sources:
            digests |= dict(values_read(attrgetter(name)(sys.modules[module]), set()))
    return [f"{name} {digest}" for name, digest in sorted(digests.items())]


def values_read(code: Any, seen_ids: set[int]) -> Iterator[tuple[str, str]]:
    """Yield the names and hashes of the values that a function or class reads from its module.

    Parameters
    ----------
    code : type or FunctionType
        The script's functions and classes that it uses are followed, too.
    seen_ids : set of int
        Identities of the objects visited so far, so that recursion ends.
    """
    if id(code) in seen_ids:
        return
    seen_ids.add(id(code))
    if isinstance(code, type):
        for name, value in sorted(vars(code).items()):
            function = getattr(value, "fget", None) or getattr(value, "__func__", value)
            if isinstance(function, FunctionType):
                yield from values_read(function, seen_ids)
            elif not name.startswith("__") and not hasattr(value, "__get__"):
                yield f"{code.__qualname__}.{name}", joblib.hash(value)
        for base in code.__bases__:
            if is_of_script(base):
                yield from values_read(base, seen_ids)
    elif isinstance(code, FunctionType):
        if code.__closure__ or code.__defaults__ or code.__kwdefaults__:
            cells = [cell.cell_contents for cell in code.__closure__ or ()]
            captured_values = cells, code.__defaults__, code.__kwdefaults__
            yield code.__qualname__, joblib.hash(captured_values)
        for name in sorted(names_in(code.__code__) & code.__globals__.keys()):
            value = code.__globals__[name]
            if isinstance(value, ModuleType):
                if is_of_script(value):
                    plain_values = {
                        key: item for key, item in vars(value).items() if is_plain(item)
                    }
                    yield name, joblib.hash(plain_values)
            elif isinstance(value, type | FunctionType):
                if is_of_script(value):
                    yield from values_read(value, seen_ids)
            elif not callable(value):
                yield f"{code.__module__}.{name}", joblib.hash(value)


def names_in(code: CodeType) -> set[str]:
    """The names of globals and attributes in a code object, nested functions included."""
    inner = (names_in(part) for part in code.co_consts if isinstance(part, CodeType))
    return set(code.co_names).union(*inner)


def is_of_script(value: Any) -> bool:
    """Whether a module, or an object's module, is the user's own and not an installed package."""
    module = value.__name__ if isinstance(value, ModuleType) else value.__module__
    return module == "__main__" or bool(content_of(f"{module}:any")[0])


def is_plain(value: Any) -> bool:
    """Whether a value is a number, a string, an array or a built-in collection."""
    return isinstance(value, str | bytes | bool | int | float | tuple | list | dict | np.ndarray)
