"""What is asked of a cluster, whatever its kind."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from cluster_setup.errors import ClusterError

_DASHBOARD = re.compile(r"off|([^:\s]+:)?\d{1,5}")


def _is_dashboard(text: str) -> bool:
    port = text.rpartition(":")[2]
    return bool(_DASHBOARD.fullmatch(text)) and (text == "off" or int(port) < 2**16)


def silent(line: str) -> None:
    """Say nothing."""


@dataclass(frozen=True)
class ClusterOptions:
    """What is asked of a cluster; one place for what every kind's ``open_client`` is given.

    Attributes
    ----------
    kind : str
        A name in ``KINDS`` or the address of a running scheduler; resolved, never ``"auto"``.
    workers : int, optional
        By default what the kind finds right: every GPU or core here, the profile's number.
    threads_per_worker : int
        Tasks that one worker runs at a time (``local``).
    device : str
        ``"gpu"``, ``"cpu"``, or ``"auto"``: the GPU where the kind or the profile has one.
    profile : str, optional
        A site's profile, by name or as the path of a YAML file (queues).
    adaptive : (int, int), optional
        Fewest and most workers, in place of ``workers`` (queues).
    tls : bool
        Encrypt, and admit only who holds the certificate of this run.
    dashboard : str, optional
        A port of the loopback address, ``host:port``, or ``"off"``; by default Dask's usual
        port, or a free one where that is taken.
    say : function of one line of text
        Told what a person who waits wants to know.
    """

    kind: str
    workers: int | None = None
    threads_per_worker: int = 1
    device: str = "auto"
    profile: str | None = None
    adaptive: tuple[int, int] | None = None
    tls: bool = True
    dashboard: str | None = None
    say: Callable[[str], None] = silent

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise ClusterError(
                f"--workers must be at least 1, got {self.workers}; leave it out for all"
            )
        if self.dashboard is not None and not _is_dashboard(self.dashboard):
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
