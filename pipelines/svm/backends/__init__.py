"""The backends that fit SVMs, in one table; each is a file of its own, imported when asked for."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from difflib import get_close_matches

from cluster_setup.installation import install_line
from pipelines.errors import InputError, opt
from pipelines.svm.backends.base import Backend


@dataclass(frozen=True)
class Entry:
    """A backend for a device: its class, its requirements and the extra that installs them."""

    module: str
    needs: str
    extra: str | None = None


# Name -> device -> file. A new backend is one file and one entry.
BACKENDS = {
    "path": {
        "cpu": Entry("pipelines.svm.backends.path", "numba"),
        "gpu": Entry("pipelines.svm.backends.path_cuda", "cupy", "gpu"),
    },
    "sklearn": {"cpu": Entry("pipelines.svm.backends.sklearn", "sklearn")},
    "sklearnex": {"cpu": Entry("pipelines.svm.backends.sklearnex", "sklearnex", "intel")},
    "cuml": {"gpu": Entry("pipelines.svm.backends.cuml", "cuml", "gpu")},
}
DEFAULT = "path"


def load_backend(name: str, device: str) -> Backend:
    """Return the solver of that name in ``BACKENDS`` for ``"cpu"`` or ``"gpu"``."""
    solver: Backend = importlib.import_module(BACKENDS[name][device].module).BACKEND
    return solver


def resolve_backend(name: str, device: str) -> str:
    """Return the solver that ``name`` stands for on ``device``.

    Parameters
    ----------
    name : str
        ``"auto"`` or a name in ``BACKENDS``.
    device : {"cpu", "gpu"}

    Raises
    ------
    InputError
        There is no such solver, it runs on the other device, or its package is
        not installed here.
    """
    asked, name = name, DEFAULT if name == "auto" else name
    if name not in BACKENDS:
        close = get_close_matches(name, BACKENDS, n=1)
        raise InputError(
            f"{opt('solver')} must be auto or one of {', '.join(BACKENDS)}, got {name!r}"
            + (f"; did you mean {close[0]}?" if close else "")
        )
    if device not in BACKENDS[name]:
        (other,) = BACKENDS[name]
        raise InputError(
            f"{opt('solver', name)} computes on the {other.upper()}, the workers here on the "
            f"{device.upper()}; use {opt('device', other)}, or {opt('solver', DEFAULT)}"
        )
    entry = BACKENDS[name][device]
    if importlib.util.find_spec(entry.needs) is None:
        other = opt("device", "cpu") if asked == "auto" else opt("solver", "auto")
        raise InputError(
            f"{opt('solver', name)} needs {entry.needs}, which is not installed here; "
            f"run {install_line(str(entry.extra))}, or use {other}"
        )
    return name
