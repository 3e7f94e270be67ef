"""What a script's searches found and the CPU time they took, recorded in the script's process."""

from __future__ import annotations

import atexit
import functools
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from sklearn import model_selection

FUNCTIONS = ("cross_validate", "cross_val_score", "validation_curve", "learning_curve")
_records: list[dict[str, Any]] = []
_depth = 0


def record_searches(path: str | Path) -> None:
    """Record every outermost search from now on; write the records when the process ends.

    ``BaseSearchCV.fit`` and the functions of ``FUNCTIONS`` are wrapped wherever scikit-learn
    holds them. NumPy's global generator is seeded, so that scripts that leave their seeds
    to it can be compared.

    Parameters
    ----------
    path : str or Path
        JSON: a list with a dict of each call, see ``_recorded``.
    """
    np.random.seed(0)  # noqa: NPY002
    base: Any = model_selection.GridSearchCV.__base__  # of all searches; its name is private
    base.fit = _recorded(base.fit, None, _of_search)
    for name in FUNCTIONS:
        original = getattr(model_selection, name)
        wrapper = _recorded(original, name, _of_arrays)
        for module in [module for key, module in sys.modules.items() if key.startswith("sklearn")]:
            if vars(module).get(name) is original:
                setattr(module, name, wrapper)
    atexit.register(lambda: Path(path).write_text(json.dumps(_records)))


def answer_addresses(copies: Mapping[str, str]) -> None:
    """Let ``pandas.read_csv`` read the files named in ``copies`` for the addresses that name them.

    Parameters
    ----------
    copies : mapping of str to str
        Address to path.
    """
    import pandas as pd

    read_csv = pd.read_csv

    @functools.wraps(read_csv)
    def read(source: Any, *args: Any, **kwargs: Any) -> Any:
        path = copies.get(source, source) if isinstance(source, str) else source
        return read_csv(path, *args, **kwargs)

    setattr(pd, "read_csv", read)  # noqa: B010  of its many overloads one serves


def _recorded(
    function: Callable[..., Any], name: str | None, describe: Callable[[Any], dict[str, Any]]
) -> Callable[..., Any]:
    """``function``, of which calls that no other search makes are timed and recorded."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        global _depth
        began, _depth = _cpu_seconds(), _depth + 1
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            outcome: dict[str, Any] = {"best": None, "error": type(error).__name__, "scores": {}}
            raise
        else:
            outcome = {"error": None, **describe(result)}
        finally:
            _depth -= 1
            if not _depth:
                estimator = args[0] if args else kwargs["estimator"]
                call = {"search": _words(name, estimator), "seconds": _cpu_seconds() - began}
                _records.append(call | outcome)
        return result

    return wrapper


def _words(name: str | None, estimator: Any) -> str:
    """A call in words: ``GridSearchCV(SVC)``."""
    if name is None:
        name, estimator = type(estimator).__name__, estimator.estimator
    steps = getattr(estimator, "steps", None)
    classes = [step for _, step in steps] if steps else [estimator]
    return f"{name}({', '.join(type(part).__name__ for part in classes)})"


def _of_search(search: Any) -> dict[str, Any]:
    """The best candidate, and what each scored in the mean and on each split."""
    scores = {
        key: values
        for key, values in getattr(search, "cv_results_", {}).items()
        if key.startswith(("mean_t", "split")) or key in ("n_resources", "iter")
    }
    best = getattr(search, "best_params_", None)
    return {
        "best": None if best is None else repr(best),
        "best_score": getattr(search, "best_score_", None),
        "scores": _listed(scores),
    }


def _of_arrays(result: Any) -> dict[str, Any]:
    """The scores of each split; times are left out."""
    if isinstance(result, Mapping):
        scores = {key: values for key, values in result.items() if key.startswith(("test", "tr"))}
    else:
        parts: Sequence[Any] = result if isinstance(result, tuple) else (result,)
        scores = {str(index): values for index, values in enumerate(parts[:3])}
    return {"best": None, "scores": _listed(scores)}


def _listed(scores: Mapping[str, Any]) -> dict[str, list[float]]:
    return {key: np.ravel(values).astype(float).tolist() for key, values in scores.items()}


def _cpu_seconds() -> float:
    """CPU seconds of this process and those it started, ended or not."""
    ended = os.times()
    total = time.process_time() + ended.children_user + ended.children_system
    for process in psutil.Process().children(recursive=True):
        try:
            times = process.cpu_times()
        except psutil.Error:  # it ended between the two calls
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total
