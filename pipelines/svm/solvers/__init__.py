"""The solvers, in one table; each is a file of its own, imported when asked for."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from difflib import get_close_matches

from pipelines.data.errors import InputError
from pipelines.svm.solvers.base import Settings, Solver

__all__ = ["SOLVERS", "Settings", "load_solver", "resolve_solver"]


@dataclass(frozen=True)
class Entry:
    """Where a solver is, what it needs, and the extra that brings that."""

    module: str
    device: str
    needs: str
    extra: str | None = None


SOLVERS = {
    "path": Entry("pipelines.svm.solvers.path_cpu", "cpu", "numba"),
    "sklearn": Entry("pipelines.svm.solvers.sklearn_svc", "cpu", "sklearn"),
    "sklearnex": Entry("pipelines.svm.solvers.sklearnex_svc", "cpu", "sklearnex", "intel"),
    "cuml": Entry("pipelines.svm.solvers.cuml_svc", "gpu", "cuml", "gpu"),
}
DEFAULT = {"cpu": "path", "gpu": "cuml"}


def load_solver(name: str) -> Solver:
    """The solver of that name in ``SOLVERS``."""
    solver: Solver = importlib.import_module(SOLVERS[name].module).SOLVER
    return solver


def resolve_solver(name: str, device: str) -> str:
    """The solver that ``name`` stands for on ``device``.

    Parameters
    ----------
    name : str
        ``"auto"`` or a name in ``SOLVERS``.
    device : {"cpu", "gpu"}

    Raises
    ------
    InputError
        There is no such solver, it runs on the other device, or its package is
        not installed here.
    """
    if name == "auto":
        name = DEFAULT[device]
    if name not in SOLVERS:
        close = get_close_matches(name, SOLVERS, n=1)
        raise InputError(
            f"--solver must be auto or one of {', '.join(SOLVERS)}, got {name!r}"
            + (f"; did you mean {close[0]}?" if close else "")
        )
    entry = SOLVERS[name]
    if importlib.util.find_spec(entry.needs) is None:
        raise InputError(
            f"--solver {name} needs {entry.needs}, which is not installed here; "
            f"run pip install -c constraints.txt '.[{entry.extra}]', or use --solver auto"
        )
    if entry.device != device:
        raise InputError(
            f"--solver {name} runs on the {entry.device}, got --device {device}; "
            f"use --device {entry.device}, or --solver {DEFAULT[device]}"
        )
    return name
