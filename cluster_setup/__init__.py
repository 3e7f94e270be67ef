"""Where tasks run: one kind of cluster a file in ``kinds``, all of them in one table.

``open_cluster`` is the whole interface. This package knows nothing of
``pipelines``.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import wraps
from types import ModuleType
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, overload
from urllib.parse import urlsplit

from cluster_setup.errors import ClusterError
from cluster_setup.options import KINDS, ClusterOptions
from cluster_setup.settings import settings_of

if TYPE_CHECKING:
    from distributed import Client

__all__ = [
    "KINDS",
    "ClusterError",
    "ClusterOptions",
    "join",
    "open_cluster",
    "render",
    "resolve_kind",
]

ADDRESSES = ("tcp://", "tls://", "ucx://", "ws://", "wss://")

P = ParamSpec("P")
T = TypeVar("T", covariant=True)


class _Asked(Protocol[P, T]):
    @overload
    def __call__(self, options: ClusterOptions, /) -> T: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T: ...


def _asked(
    options: Callable[P, ClusterOptions],
) -> Callable[[Callable[[ClusterOptions], T]], _Asked[P, T]]:
    """A function of ``ClusterOptions`` takes those, or what makes them: spelt there alone."""

    def decorate(function: Callable[[ClusterOptions], T]) -> _Asked[P, T]:
        @wraps(function)
        def asked(*args: Any, **kwargs: Any) -> T:
            given = args[0] if args and isinstance(args[0], ClusterOptions) else None
            chosen = given or options(*args, **kwargs)
            kind = resolve_kind(chosen.kind, chosen.profile)
            chosen = dataclasses.replace(chosen, kind=kind)
            chosen.refuse_what_the_kind_does_not_take()
            refuse = getattr(_module(kind), "refuse", None)
            if refuse:
                refuse(chosen)
            return function(chosen)

        asked.__signature__ = inspect.signature(options)  # type: ignore[attr-defined]
        return asked

    return decorate


def resolve_kind(kind: str, profile: str | None = None) -> str:
    """The kind that ``kind`` stands for on this machine.

    Parameters
    ----------
    kind : str
        A name in ``KINDS``, a scheduler's address, or ``"auto"``: the profile's
        queue when there is one, else ``"cuda"`` when NVML sees a GPU and
        dask-cuda is installed, else ``"local"``.
    profile : str, optional
        As in ``ClusterOptions``.

    Raises
    ------
    ClusterError
        The kind is unknown.
    """
    if kind == "auto":
        if profile is not None:
            from cluster_setup.profiles import load_profile

            return load_profile(profile).queue
        from cluster_setup.kinds import cuda
        from cluster_setup.on_this_machine import devices

        return "cuda" if devices.visible_gpus() and cuda.is_installed() else "local"
    if kind.startswith(ADDRESSES):
        _refuse_wrong_port(kind)
        return kind
    if kind in KINDS:
        return kind
    names = ["auto", *KINDS]
    close = get_close_matches(kind, names, n=1)
    way_out = f"did you mean {close[0]}?" if close else "for instance tcp://127.0.0.1:8786"
    raise ClusterError(
        f"--cluster must be one of {', '.join(names)} or a scheduler's address, "
        f"got {kind!r}; {way_out}"
    )


def _refuse_wrong_port(address: str) -> None:
    try:
        port = urlsplit(address).port
    except ValueError:
        port = None
    if port is None:
        raise ClusterError(
            f"--cluster must be an address with a port of at most 65535, got {address!r}; "
            "for instance tls://127.0.0.1:8786"
        )


@_asked(ClusterOptions)
@contextmanager
def open_cluster(options: ClusterOptions) -> Iterator[Client]:
    """Open a cluster and give a client of it; close what was opened at the end.

    A queue's client is given when its first worker has come.

    Parameters
    ----------
    options : ClusterOptions
        Or its fields: ``open_cluster("slurm", 12, profile="sulis")``.

    Yields
    ------
    distributed.Client
        Its ``cluster`` attribute is None for a running scheduler.

    Raises
    ------
    ClusterError
        The kind is unknown, what it needs is missing, or nothing answers.
    """
    import dask
    import distributed  # noqa: F401  its defaults must be in the configuration before ours

    logging.getLogger("asyncio").addFilter(_worth_a_line)
    # Another port is taken then, and the dashboard's address is always said.
    warnings.filterwarnings("ignore", "(?s)Port .* is already in use", module="distributed.node")
    # Nothing is kept there: a busy machine is slow to make a folder, and that is all.
    warnings.filterwarnings("ignore", "Creating scratch directories")
    with (
        dask.config.set(settings_of(options.dashboard)),
        _module(options.kind).open_client(options) as client,
    ):
        if "ipykernel" in sys.modules:
            # JupyterLab's Dask panel searches for the default of a notebook's kernel. Dask has no
            # public way of it for a client that is there; it takes it back when that closes.
            from distributed.client import _set_global_client

            _set_global_client(client)
        yield client


def _worth_a_line(record: logging.LogRecord) -> bool:
    """False for what Dask's client leaves behind where Ctrl-C ends its wait for a result."""
    kind = record.exc_info[0] if record.exc_info else None
    return kind is None or kind.__name__ != "AllExit"


@_asked(ClusterOptions)
def join(options: ClusterOptions) -> None:
    """Take part in a cluster that starts the program on several ranks at once (``mpi``).

    Returns on the one rank that runs the program, serves and exits on the others;
    returns at once for every other kind. To be called before anything that is to
    happen once, with what ``open_cluster`` is given.

    Raises
    ------
    ClusterError
        The program was not started as the kind needs.
    """
    take_part = getattr(_module(options.kind), "take_part", None)
    if take_part:
        take_part(options)


@_asked(ClusterOptions)
def render(options: ClusterOptions) -> str | None:
    """The job script of one worker, as text; None for a kind that submits no jobs.

    Takes what ``open_cluster`` takes, and refuses what it refuses.

    Raises
    ------
    ClusterError
        The kind or its profile is not as it must be.
    """
    job_script = getattr(_module(options.kind), "job_script", None)
    return job_script(options) if job_script else None


def _module(kind: str) -> ModuleType:
    return importlib.import_module(f"cluster_setup.kinds.{kind if kind in KINDS else 'address'}")
