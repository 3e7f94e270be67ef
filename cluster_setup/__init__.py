"""Where tasks run: one kind of cluster a file, all of them in one table.

``open_cluster`` is the whole interface. This package knows nothing of
``pipelines``.
"""

from __future__ import annotations

import importlib
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cluster_setup.errors import ClusterError
from cluster_setup.options import ClusterOptions, silent
from cluster_setup.settings import SETTINGS

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

# A new kind is one file with a function ``open_client`` and one line here.
KINDS = {
    "local": "cluster_setup.local",
    "cuda": "cluster_setup.cuda",
    "slurm": "cluster_setup.slurm",
    "pbs": "cluster_setup.queues",
    "sge": "cluster_setup.queues",
    "mpi": "cluster_setup.mpi",
    "srun": "cluster_setup.srun",
}
ADDRESSES = ("tcp://", "tls://", "ucx://", "ws://", "wss://")
QUEUES = ("slurm", "pbs", "sge")
WITH_PROFILE = (*QUEUES, "mpi", "srun")


def is_address(kind: str) -> bool:
    """Whether ``kind`` is the address of a running scheduler, not a name."""
    return kind.startswith(ADDRESSES)


def resolve_kind(kind: str, profile: str | None = None) -> str:
    """The kind that ``kind`` stands for on this machine.

    Parameters
    ----------
    kind : str
        A name in ``KINDS``, a scheduler's address, or ``"auto"``: the profile's
        queue when there is one, else ``"cuda"`` when NVML sees a GPU and
        dask-cuda is installed, else ``"local"``.
    profile : str, optional
        As in ``open_cluster``.

    Raises
    ------
    ClusterError
        The kind is unknown.
    """
    if kind == "auto":
        if profile is not None:
            from cluster_setup.profile import load_profile

            return load_profile(profile).queue
        from cluster_setup import cuda

        return "cuda" if cuda.visible_gpus() and cuda.is_installed() else "local"
    if is_address(kind):
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


@contextmanager
def open_cluster(
    kind: str = "auto",
    workers: int | None = None,
    *,
    threads_per_worker: int = 1,
    device: str = "auto",
    profile: str | None = None,
    adaptive: tuple[int, int] | None = None,
    tls: bool = True,
    dashboard: str | None = None,
    say: Callable[[str], None] = silent,
) -> Iterator[Client]:
    """Open a cluster and give a client of it; close what was opened at the end.

    Parameters
    ----------
    kind : str
        ``"auto"``, a name in ``KINDS``, or the address of a running scheduler
        (``tcp://host:8786``), which is left running.
    workers : int, optional
        Number of workers; by default one for each GPU (``cuda``) or core
        (``local``), or the profile's number (queues). A running scheduler keeps
        the workers it has; ``workers`` is then the number to wait for. A queue's
        client is given when its first worker has come.
    threads_per_worker : int
        Tasks that one worker runs at a time (``local``).
    device : str
        Whether a queue's jobs ask for a GPU: ``"gpu"``, ``"cpu"``, or ``"auto"``:
        if the profile has one.
    profile : str, optional
        The site's profile: its name, or the path of a YAML file (queues).
    adaptive : (int, int), optional
        In place of ``workers``, the fewest and the most (queues).
    tls : bool
        False leaves connections open to whoever reaches them.
    dashboard : str, optional
        A port of the loopback address, ``host:port``, or ``"off"``.
    say : function of one line of text, optional
        Told what a person who waits for a queue wants to know.

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

    options = _options(
        kind, workers, threads_per_worker, device, profile, adaptive, tls, dashboard, say
    )
    logging.getLogger("asyncio").addFilter(_worth_a_line)
    settings: dict[str, Any] = dict(SETTINGS)
    if dashboard == "off":
        settings["distributed.scheduler.http.routes"] = []
    # Another port is taken then, and the dashboard's address is always said.
    warnings.filterwarnings("ignore", "(?s)Port .* is already in use", module="distributed.node")
    # Nothing is kept there: a busy machine is slow to make a folder, and that is all.
    warnings.filterwarnings("ignore", "Creating scratch directories")
    with dask.config.set(settings), _module(options.kind).open_client(options) as client:
        yield client


def _worth_a_line(record: logging.LogRecord) -> bool:
    """False for what Dask's client leaves behind where Ctrl-C ends its wait for a result."""
    kind = record.exc_info[0] if record.exc_info else None
    return kind is None or kind.__name__ != "AllExit"


def join(
    kind: str, *, profile: str | None = None, tls: bool = True, dashboard: str | None = None
) -> None:
    """Take part in a cluster that starts the program on several ranks at once (``mpi``).

    Returns on the one rank that runs the program, serves and exits on the others;
    returns at once for every other kind. To be called before anything that is to
    happen once.

    Raises
    ------
    ClusterError
        The program was not started as the kind needs.
    """
    options = _options(kind, None, 1, "auto", profile, None, tls, dashboard, silent)
    if options.kind == "mpi":
        _module("mpi").take_part(options)


def render(
    kind: str,
    workers: int | None = None,
    *,
    device: str = "auto",
    profile: str | None = None,
    adaptive: tuple[int, int] | None = None,
    tls: bool = True,
    dashboard: str | None = None,
) -> str | None:
    """The job script of one worker, as text; None for a kind that submits no jobs.

    Takes what ``open_cluster`` takes, and refuses what it refuses.

    Raises
    ------
    ClusterError
        The kind or its profile is not as it must be.
    """
    options = _options(kind, workers, 1, device, profile, adaptive, tls, dashboard, silent)
    if options.kind not in QUEUES:
        return None
    script: str = _module(options.kind).job_script(options)
    return script


def _options(
    kind: str,
    workers: int | None,
    threads_per_worker: int,
    device: str,
    profile: str | None,
    adaptive: tuple[int, int] | None,
    tls: bool,
    dashboard: str | None,
    say: Callable[[str], None],
) -> ClusterOptions:
    kind = resolve_kind(kind, profile)
    options = ClusterOptions(
        kind, workers, threads_per_worker, device, profile, adaptive, tls, dashboard, say
    )
    for flag, value, kinds in (
        ("--profile", profile, WITH_PROFILE),
        ("--adaptive", adaptive, QUEUES),
    ):
        if value is not None and kind not in kinds:
            raise ClusterError(
                f"{flag} is for --cluster {', '.join(kinds)}, got --cluster {kind}; leave it out"
            )
    return options


def _module(kind: str) -> ModuleType:
    return importlib.import_module(KINDS.get(kind, "cluster_setup.address"))
