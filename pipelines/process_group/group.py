"""Ranks that compute together: how they find each other, what they add up, how they end.

Plain torch and sockets; ranks may be processes on many hosts or threads of one. Groups are
made without torch's global one, so that a process that lost a process group can join the next.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

# Of a collective: a rank that waits longer has lost its process group.
SECONDS = 30.0
# Of finding each other: a process that has just started loads torch first.
SECONDS_TO_JOIN = 120.0


class ProcessGroupError(RuntimeError):
    """A rank is gone, or was told to stop; the process is well.

    Attributes
    ----------
    kept : what the work wants to be remembered, or None
    """

    kept: Any = None


@dataclass(frozen=True)
class Address:
    """The address at which rank 0 listens."""

    host: str
    port: int


class Rendezvous:
    """The rendezvous of a group's ranks: opened by rank 0's process on a free port.

    It listens on the address that Dask's worker has, not on all of its host.
    """

    def __init__(self, host: str, seconds: float = SECONDS) -> None:
        from torch._C._distributed_c10d import TCPStore

        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, 0), family=family)
        self.address = Address(host, listening.getsockname()[1])
        self._store = TCPStore(
            host, self.address.port, is_master=True, wait_for_workers=False,
            timeout=timedelta(seconds=seconds), master_listen_fd=listening.detach(),
        )  # fmt: skip


class Group:
    """One rank's handle of a process group.

    Attributes
    ----------
    rank, n_ranks : int
    device : str
        torch's name of where its tensors are: ``cpu`` (gloo) or ``cuda`` (nccl).
    """

    def __init__(self, rank: int, n_ranks: int, device: str, backend: Any = None) -> None:
        self.rank, self.n_ranks, self.device = rank, n_ranks, device
        self._backend = backend
        self._broken = threading.Event()
        self._spans: list[float] = []  # seconds of each collective since the last tally

    @classmethod
    def join(
        cls, address: Address, rank: int, n_ranks: int, *, device: str = "cpu",
        host: str = "127.0.0.1", seconds: float = SECONDS,
        stopped: Callable[[], bool] = lambda: False,
    ) -> Group:  # fmt: skip
        """Wait until all ranks are there.

        Parameters
        ----------
        address : of the process group's ``Rendezvous``
        host : address by which this rank is to be reached
        seconds : that a collective may take
        stopped : asked meanwhile, whether there is no use in waiting

        Raises
        ------
        ProcessGroupError
            They were not all there in time.
        """
        if n_ranks == 1:
            return cls(rank, n_ranks, device)
        from torch._C._distributed_c10d import TCPStore

        try:
            store = TCPStore(
                address.host, address.port, is_master=False, wait_for_workers=False,
                timeout=timedelta(seconds=seconds),
            )  # fmt: skip
            # A barrier of our own: where one is missing, nobody begins to wait for its sockets.
            store.set(f"here {rank}", "")
            until = time.monotonic() + SECONDS_TO_JOIN
            while not store.check([f"here {one}" for one in range(n_ranks)]):
                if stopped() or time.monotonic() > until:
                    raise RuntimeError("not all of them came")
                time.sleep(0.01)
            limit = timedelta(seconds=seconds)
            return cls(rank, n_ranks, device, _backend(store, rank, n_ranks, device, host, limit))
        except RuntimeError as error:  # torch's DistError is one
            raise ProcessGroupError(f"the ranks did not find each other: {error}") from None

    def sum(self, tensor: torch.Tensor) -> None:
        """Add up a tensor over all ranks, in place.

        Raises
        ------
        ProcessGroupError
            A rank is gone, or the process group was told to stop.
        """
        self._collective(lambda backend: backend.allreduce([tensor]))

    def mean(self, tensor: torch.Tensor) -> None:
        """Average a tensor over all ranks, in place; raises as ``sum``."""
        self.sum(tensor)
        tensor /= self.n_ranks

    def broadcast(self, tensor: torch.Tensor) -> None:
        """Give all ranks rank 0's tensor; raises as ``sum``."""
        self._collective(lambda backend: backend.broadcast([tensor]))

    def check(self) -> None:
        """Raise ProcessGroupError if this rank was told to stop; without communication."""
        if self._broken.is_set():
            raise ProcessGroupError("the process group was told to stop")

    def tally(self) -> tuple[float, float]:
        """Return seconds of communicating and of waiting, in collectives since the last call.

        All ranks leave a collective together: its cost is the time of the rank that came last,
        the least of all; what another spent more in it, that one waited. No clocks are compared.
        """
        import torch
        from torch.distributed import AllreduceOptions, ReduceOp

        spans, self._spans = self._spans, []
        if self._backend is None or not spans:
            return 0.0, 0.0
        mine = torch.tensor(spans, dtype=torch.float64)
        least = mine.to(self.device, copy=True)
        options = AllreduceOptions()
        options.reduceOp = ReduceOp.MIN
        self._collective(lambda backend: backend.allreduce([least], options))
        self._spans = []
        communicating = float(least.sum())
        return communicating, float(mine.sum()) - communicating

    @contextmanager
    def as_torch(self) -> Iterator[Any]:
        """Make this process group torch's global group, for parts of torch that take no other.

        The sockets stay those of this process group. A process can be in one such at a time.
        """
        import torch.distributed as torch_distributed
        from torch._C._distributed_c10d import HashStore

        dist: Any = torch_distributed
        backend = self._backend
        if backend is None:
            raise ProcessGroupError("the process group was told to stop")
        dist.Backend.register_backend("elastic", lambda *_: backend, devices=[self.device])
        dist.init_process_group(
            "elastic", store=HashStore(), rank=self.rank, world_size=self.n_ranks
        )  # fmt: skip
        try:
            yield dist.group.WORLD
        finally:
            dist.destroy_process_group()

    def abort(self) -> None:
        """Leave the group, from any thread: the next collective, or check, raises.

        The sockets close as soon as no collective of this rank uses them, which the others
        notice at once: theirs raise too.
        """
        self._broken.set()
        backend, self._backend = self._backend, None
        if backend is not None and self.device != "cpu":
            backend.abort()  # of gloo it interrupts nothing

    def _collective(self, begin: Callable[[Any], Any]) -> None:
        """Run the collective that ``begin`` starts; return once its result can be used."""
        backend = self._backend
        self.check()
        if backend is None:
            return
        self._synchronize()  # what the device has yet to compute is not communication
        began = time.perf_counter()
        try:
            begin(backend).wait()
            self._synchronize()
        except RuntimeError as error:
            self.abort()
            raise ProcessGroupError(str(error).splitlines()[0]) from None
        # wait() of NCCL neither blocks the host nor raises: of a collective that was aborted the
        # device has a part of the sum, and this is how that is known before it is used.
        self.check()
        self._spans.append(time.perf_counter() - began)

    def _synchronize(self) -> None:
        """Wait until the device has done its queued work; a CPU has none."""
        if self.device != "cpu":
            import torch

            torch.cuda.synchronize(self.device)


def _backend(store: Any, rank: int, n_ranks: int, device: str, host: str, limit: timedelta) -> Any:
    import torch.distributed as torch_distributed

    dist: Any = torch_distributed  # its stubs lack what gloo's options are made of
    if device != "cpu":
        options = dist.ProcessGroupNCCL.Options()
        options._timeout = limit
        return dist.ProcessGroupNCCL(store, rank, n_ranks, options)
    options = dist.ProcessGroupGloo._Options()
    options._timeout = limit
    # Else gloo listens on the address that the host's name has, which may be none.
    options._devices = [dist.ProcessGroupGloo.create_device(hostname=host)]
    return dist.ProcessGroupGloo(store, rank, n_ranks, options)
