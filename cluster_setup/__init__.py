"""Open clusters of every kind: each kind is a file in ``kinds``, and ``KINDS`` lists them.

``open_cluster`` is the interface. This package knows nothing of ``pipelines``.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from difflib import get_close_matches
from multiprocessing import current_process
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cluster_setup.errors import ClusterError
from cluster_setup.kinds import load_kind, other_kinds
from cluster_setup.options import KINDS, ClusterOptions
from cluster_setup.settings import BY_BUS, ORDER, dask_settings
from cluster_setup.shutdown import forget_schedulers

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


def _resolve(
    kind: ClusterOptions | str, workers: int | None, further_options: dict[str, Any]
) -> tuple[ClusterOptions, ModuleType]:
    """The options, checked against their kind, and the module of the kind."""
    options = (
        kind
        if isinstance(kind, ClusterOptions)
        else ClusterOptions(kind, workers, **further_options)
    )
    options = replace(options, kind=resolve_kind(options.kind, options.profile))
    module = load_kind(options.kind)
    kind_options = KINDS.get(options.kind, getattr(module, "OPTIONS", ()))
    for option in ("profile", "adaptive", "rmm_pool"):
        if getattr(options, option) is not None and option not in kind_options:
            kinds = ", ".join(
                kind for kind, options_of_kind in KINDS.items() if option in options_of_kind
            )
            raise ClusterError(
                f"--{option.replace('_', '-')} is for --cluster {kinds}, "
                f"got --cluster {options.kind}; leave it out"
            )
    if hasattr(module, "refuse"):
        module.refuse(options)
    return options, module


def resolve_kind(kind: str, profile: str | None = None) -> str:
    """The kind that ``kind`` stands for on this machine.

    Parameters
    ----------
    kind : str
        A name in ``KINDS`` or of another package's kind, a scheduler's address, or ``"auto"``:
        the queue of the profile if there is one, else ``"threads"`` in a process that may start no
        others, else ``"cuda"`` if NVML sees a GPU and dask-cuda is installed, else ``"local"``.
    profile : str, optional
        As in ``ClusterOptions``.

    Returns
    -------
    str
        The name of a kind, or a scheduler's address.

    Raises
    ------
    ClusterError
        The kind is unknown, or the address has no valid port.
    """
    if kind == "auto":
        if profile is not None:
            from cluster_setup.profiles import load_profile

            return load_profile(profile).queue
        from cluster_setup.kinds import cuda
        from cluster_setup.on_this_machine import devices

        if current_process().daemon:  # such as a Dask worker, if this runs in a task
            return "threads"
        return "cuda" if devices.visible_gpus() and cuda.is_installed() else "local"
    if kind.startswith(ADDRESSES):
        try:
            port = urlsplit(kind).port
        except ValueError:
            port = None
        if port is None:
            raise ClusterError(
                f"--cluster must be an address with a port of at most 65535, got {kind!r}; "
                "for instance tls://127.0.0.1:8786"
            )
        return kind
    if kind in KINDS or kind in (other_names := other_kinds()):
        return kind
    names = ["auto", *KINDS, *other_names]
    close_names = get_close_matches(kind, names, n=1)
    way_out = (
        f"did you mean {close_names[0]}?" if close_names else "for instance tcp://127.0.0.1:8786"
    )
    raise ClusterError(
        f"--cluster must be one of {', '.join(names)} or a scheduler's address, "
        f"got {kind!r}; {way_out}"
    )


@contextmanager
def open_cluster(
    kind: ClusterOptions | str = "auto", workers: int | None = None, **further_options: Any
) -> Iterator[Client]:
    """Open a cluster and yield a client of it; close what was opened at the end.

    The client of a queue is yielded once the first worker has registered.

    Parameters
    ----------
    kind, workers, **further_options
        The fields of ``ClusterOptions``: ``open_cluster("slurm", 12, profile="sulis")``; or
        ``kind`` is a ``ClusterOptions``.

    Yields
    ------
    distributed.Client
        Its ``cluster`` attribute is None for a scheduler that was running before.

    Raises
    ------
    ClusterError
        The kind is unknown, or what it needs is missing, or its scheduler does not answer.
    """
    import dask
    import distributed  # noqa: F401  its defaults must be in the configuration before ours

    options, module = _resolve(kind, workers, further_options)
    if getattr(current_process(), "_inheriting", False):
        raise ClusterError(
            "the script opens a cluster while it is being imported by a worker; put what "
            'opens it under a line of its own: if __name__ == "__main__":'
        )
    os.environ.setdefault(ORDER, BY_BUS)  # for workers that are threads of this process
    logging.getLogger("asyncio").addFilter(_is_no_interrupted_wait)
    for name in ("client", "batched"):
        logging.getLogger(f"distributed.{name}").addFilter(_is_no_lost_scheduler)
    # Dask then takes another port, and the address of the dashboard is printed anyway.
    warnings.filterwarnings("ignore", "(?s)Port .* is already in use", module="distributed.node")
    # Dask warns if making these folders is slow, as on a busy machine; nothing is kept in them.
    warnings.filterwarnings("ignore", "Creating scratch directories")
    with ExitStack() as ending:
        ending.callback(forget_schedulers)
        ending.enter_context(dask.config.set(dask_settings(options.dashboard)))
        client = ending.enter_context(module.open_client(options))
        if "ipykernel" in sys.modules:
            # JupyterLab's Dask panel searches the kernel for its default client. Dask has no public
            # function that makes an open client the default; it stops being it when it closes.
            from distributed.client import _set_global_client

            _set_global_client(client)
        yield client


def _is_no_interrupted_wait(record: logging.LogRecord) -> bool:
    """False for what Dask's client logs where Ctrl-C ends its wait for a result."""
    exception_type = record.exc_info[0] if record.exc_info else None
    return exception_type is None or exception_type.__name__ != "AllExit"


def _is_no_lost_scheduler(record: logging.LogRecord) -> bool:
    """False for what Dask's client logs of a scheduler that has ended, as an error says it too."""
    return not str(record.msg).startswith(
        ("Failed to reconnect to scheduler", "Batched Comm Closed")
    )


def join(options: ClusterOptions) -> None:
    """Take part in a cluster that starts the program on several ranks at once (``mpi``).

    It returns on the one rank that runs the program, and serves and exits on the others. For
    every other kind it returns at once. To be called before anything that is to happen only once,
    with the options that ``open_cluster`` will get.

    Raises
    ------
    ClusterError
        The program was not started as the kind requires.
    """
    options, module = _resolve(options, None, {})
    if hasattr(module, "take_part"):
        module.take_part(options)


def render(
    kind: ClusterOptions | str = "auto", workers: int | None = None, **further_options: Any
) -> str | None:
    """The job script of one worker, as text; None for a kind that submits no jobs.

    The parameters are those of ``open_cluster``.

    Raises
    ------
    ClusterError
        The kind, its options or its profile are invalid.
    """
    options, module = _resolve(kind, workers, further_options)
    return module.job_script(options) if hasattr(module, "job_script") else None
