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
SECONDS_BETWEEN_WRITES = 0.02  # quick fits are written together; a disk takes as long for each


class KeptFits:
    """The fits that are kept in a folder.

    Parameters
    ----------
    folder : made if it is not there

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
        """Keep the result of a call; it is durable by the next ``write`` at the latest.

        A fit that failed is not kept, as it need not fail again, nor one with a score that is no
        number of Python's or numpy's.
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
        """Yield what tells the fit of each call from all others.

        Raises
        ------
        Exception
            Something in them cannot be told from others.
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
    """What the script's own classes and functions within an object are by content.

    Their sources, and the values that their code reads from modules of the script's, such as a
    constant that an option sets; not what they read from files or the environment.

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
    """Yield the names and hashes of the values that a function or a class reads from modules.

    Parameters
    ----------
    code : with all functions of its own that it calls
    seen : what was looked at
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
    """The names of globals and attributes in code, and in the functions within it."""
    inner = (names_in(part) for part in code.co_consts if isinstance(part, CodeType))
    return set(code.co_names).union(*inner)


def is_of_script(value: Any) -> bool:
    """Whether a module, or what is defined in one, is the user's own and no installed package's."""
    module = value.__name__ if isinstance(value, ModuleType) else value.__module__
    return module == "__main__" or bool(content_of(f"{module}:any")[0])


def is_plain(value: Any) -> bool:
    """Whether it is a number, a text or the like, or an array or collection of them."""
    return isinstance(value, str | bytes | bool | int | float | tuple | list | dict | np.ndarray)
