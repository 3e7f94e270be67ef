"""The options of a cluster, for all kinds."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

from cluster_setup.errors import ClusterError

# A new kind is one file in kinds/ and one line here: its name, which is that of the file, and those
# of its options that not every kind takes.
KINDS: dict[str, tuple[str, ...]] = {
    "threads": (),
    "local": (),
    "cuda": ("rmm_pool",),
    "slurm": ("profile", "adaptive", "rmm_pool"),
    "pbs": ("profile", "adaptive", "rmm_pool"),
    "sge": ("profile", "adaptive", "rmm_pool"),
    "mpi": ("profile",),
}

MOST_WORKERS = 10_000  # of any cluster: more than Dask's scheduler has been seen to serve

RMM_POOL = re.compile(r"0\.\d*[1-9]\d*|[1-9]\d*(\.\d+)?[MGT]i?B")

DASHBOARD = re.compile(r"off|(?:[^:\s]+:)?(\d{1,5})")


def rmm_pool_size(value: object) -> str:
    """The size of an RMM pool as dask-cuda takes it; raises ValueError with the rule."""
    if not RMM_POOL.fullmatch(str(value)):
        raise ValueError("must be a size such as 8GB, or a share of the GPU's memory such as 0.8")
    return str(value)


@dataclass(frozen=True)
class ClusterOptions:
    """The options of a cluster: the arguments of ``open_cluster``, ``join`` and ``render``.

    Attributes
    ----------
    kind : str
        ``"auto"``, a name in ``KINDS``, or the address of a running scheduler
        (``tcp://host:8786``), which is left running.
    workers : int, optional
        Number of workers; by default one for each GPU (``cuda``) or core
        (``local``), or the profile's number (queues). A running scheduler keeps
        the workers it has; ``workers`` is then the number to wait for.
    threads_per_worker : int
        Tasks that one worker runs at a time (``local``).
    device : str
        Whether a queue's jobs ask for a GPU: ``"gpu"``, ``"cpu"``, or ``"auto"``:
        if the profile has one.
    profile : str, optional
        The site's profile: its name, or the path of a YAML file (queues).
    adaptive : (int, int), optional
        In place of ``workers``, the fewest and the most (queues).
    rmm_pool : str, optional
        Size of an RMM pool on each GPU, for cupy, torch and RAPIDS together: ``"8GB"``, or a
        fraction of its memory, ``"0.8"`` (``cuda``, queues); by default each library has its own.
    tls : bool, default True
        Whether connections are encrypted, and only holders of this run's certificate are
        admitted; if False, anyone who reaches the ports is.
    dashboard : str, optional
        A port of the loopback address, ``host:port``, or ``"off"``; by default Dask's usual
        port, or a free one where that is taken.
    echo : function of one line of text, optional
        Prints lines for the user, such as those on a queue.
    too_small : function of a number of bytes, optional
        Returns why a GPU with so much memory cannot hold what will be computed; empty if it can.
        Such a GPU is left out if there are larger ones (``cuda``).

    Raises
    ------
    ClusterError
        A number, the size of the pool or the address of the dashboard is invalid, or two options
        exclude each other.
    """

    kind: str = "auto"
    workers: int | None = None
    _: KW_ONLY
    threads_per_worker: int = 1
    device: str = "auto"
    profile: str | None = None
    adaptive: tuple[int, int] | None = None
    rmm_pool: str | None = None
    tls: bool = True
    dashboard: str | None = None
    echo: Callable[[str], None] = lambda line: None
    too_small: Callable[[int], str] = lambda n_bytes: ""

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise ClusterError(
                f"--workers must be at least 1, got {self.workers}; leave it out for all"
            )
        most = max(self.workers or 0, *(self.adaptive or (0,)))
        if most > MOST_WORKERS:
            flag = "--adaptive" if self.adaptive else "--workers"
            raise ClusterError(f"{flag} must be at most {MOST_WORKERS}, got {most}; ask for fewer")
        if self.rmm_pool is not None:
            try:
                rmm_pool_size(self.rmm_pool)
            except ValueError as error:
                raise ClusterError(
                    f"--rmm-pool {error}, got {self.rmm_pool!r}; leave it out for none"
                ) from None
            if self.device == "cpu":
                raise ClusterError("--rmm-pool and --device cpu exclude each other; leave one out")
        address = DASHBOARD.fullmatch(self.dashboard or "off")
        if address is None or int(address[1] or 0) >= 2**16:
            raise ClusterError(
                f"--dashboard must be a port, host:port or off, got {self.dashboard!r}; "
                "leave it out for Dask's usual port"
            )
        if self.adaptive is None:
            return
        fewest, most = self.adaptive
        if not 1 <= fewest <= most:
            raise ClusterError(
                f"--adaptive must be two numbers, 1 or more, the smaller first, got {fewest} {most}"
            )
        if self.workers is not None:
            raise ClusterError("--workers and --adaptive exclude each other; leave one out")
