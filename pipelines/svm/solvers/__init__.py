"""The solvers, in one table; each is a file of its own, imported when asked for."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from difflib import get_close_matches

from pipelines.errors import InputError, opt
from pipelines.svm.solvers.base import Settings, Solver

__all__ = ["SOLVERS", "Settings", "Solver", "load_solver", "resolve_solver"]


@dataclass(frozen=True)
class Entry:
    """Where a solver for a device is, what it needs, and the extra that brings that."""

    module: str
    needs: str
    extra: str | None = None


# Name -> device -> file. A new solver is one file and one entry.
SOLVERS = {
    "path": {
        "cpu": Entry("pipelines.svm.solvers.path_cpu", "numba"),
        "gpu": Entry("pipelines.svm.solvers.path_cuda", "cupy", "gpu"),
    },
    "sklearn": {"cpu": Entry("pipelines.svm.solvers.sklearn_svc", "sklearn")},
    "sklearnex": {"cpu": Entry("pipelines.svm.solvers.sklearnex_svc", "sklearnex", "intel")},
    "cuml": {"gpu": Entry("pipelines.svm.solvers.cuml_svc", "cuml", "gpu")},
}
DEFAULT = {"cpu": "path", "gpu": "path"}


def load_solver(name: str, device: str) -> Solver:
    """The solver of that name in ``SOLVERS`` for ``"cpu"`` or ``"gpu"``."""
    solver: Solver = importlib.import_module(SOLVERS[name][device].module).SOLVER
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
    asked, name = name, DEFAULT[device] if name == "auto" else name
    if name not in SOLVERS:
        close = get_close_matches(name, SOLVERS, n=1)
        raise InputError(
            f"{opt('solver')} must be auto or one of {', '.join(SOLVERS)}, got {name!r}"
            + (f"; did you mean {close[0]}?" if close else "")
        )
    if device not in SOLVERS[name]:
        (other,) = SOLVERS[name]
        raise InputError(
            f"{opt('solver', name)} computes on the {other.upper()}, the workers here on the "
            f"{device.upper()}; use {opt('device', other)}, or {opt('solver', DEFAULT[device])}"
        )
    entry = SOLVERS[name][device]
    if importlib.util.find_spec(entry.needs) is None:
        other = opt("device", "cpu") if asked == "auto" else opt("solver", "auto")
        raise InputError(
            f"{opt('solver', name)} needs {entry.needs}, which is not installed here; "
            f"run pip install -c constraints.txt '.[{entry.extra}]', or use {other}"
        )
    return name
