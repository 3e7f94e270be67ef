"""The table of the backends that fit SVMs; each is one file, imported when it is used.

A backend of another package is a subclass of ``Backend``, found by its entry point in the group
``pleasingly.backends``. It computes on the device that its class names.
"""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from functools import cache

from cluster_setup.installation import install_line
from pipelines.errors import InputError, nearest, opt
from pipelines.extensions import Extensions
from pipelines.svm.backends.base import Backend


@dataclass(frozen=True)
class Entry:
    """A backend for a device: its module, the package it needs, and the extra that installs it."""

    module: str
    needs: str
    extra: str | None = None


# Name -> device -> file. A new backend of ours is one file and one entry.
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
DISTRIBUTIONS = {"sklearnex": ("scikit-learn-intelex",), "cuml": ("cuml-cu12", "cuml-cu13")}
OTHERS = Extensions("pleasingly.backends", "pipelines.svm.backends.base:Backend", "solver")


def solver_packages(name: str) -> tuple[str, ...]:
    """The distributions, besides ours, whose versions decide what a backend computes."""
    return DISTRIBUTIONS.get(name, ()) or OTHERS.distributions(name)


def load_backend(name: str, device: str) -> Backend:
    """The backend with this name for ``"cpu"`` or ``"gpu"``; imports its file."""
    if name not in BACKENDS:
        return _other_backend(name)
    backend: Backend = importlib.import_module(BACKENDS[name][device].module).BACKEND
    return backend


@cache
def _other_backend(name: str) -> Backend:
    backend: Backend = OTHERS.load(name)()
    return backend


def resolve_backend(name: str, device: str) -> str:
    """The name of the backend that ``name`` stands for on ``device``.

    Parameters
    ----------
    name : str
        ``"auto"``, a name in ``BACKENDS``, or the name of another package's entry point.
    device : {"cpu", "gpu"}

    Raises
    ------
    InputError
        There is no such solver, it runs on the other device, or its package is
        not installed here.
    """
    typed, name = name, DEFAULT if name == "auto" else name
    if name not in BACKENDS and not OTHERS.entries(name):
        names = (*BACKENDS, *OTHERS.names())
        way_out = nearest(name, names, "install the package that has it")
        raise InputError(
            f"{opt('solver')} must be auto or one of {', '.join(names)}, got {name!r}; {way_out}"
        )
    devices = list(BACKENDS[name]) if name in BACKENDS else [_other_backend(name).device]
    if device not in devices:
        (other,) = devices
        raise InputError(
            f"{opt('solver', name)} computes on the {other.upper()}, the workers here on the "
            f"{device.upper()}; use {opt('device', other)}, or {opt('solver', DEFAULT)}"
        )
    if name not in BACKENDS:
        return name
    entry = BACKENDS[name][device]
    if importlib.util.find_spec(entry.needs) is None:
        other = opt("device", "cpu") if typed == "auto" else opt("solver", "auto")
        raise InputError(
            f"{opt('solver', name)} needs {entry.needs}, which is not installed here; "
            f"run {install_line(str(entry.extra))}, or use {other}"
        )
    return name
