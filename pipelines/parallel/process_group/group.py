"""Ranks that compute together: how they find each other, communicate, and end.

This is plain torch, without Dask; ranks may be processes on many hosts or threads of one process.
torch's global group is not used, so that a process whose group broke can join the next one.
"""

from __future__ import annotations

import hmac
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

if TYPE_CHECKING:
    import torch

# A rank that waits longer in a collective has lost its process group.
SECONDS = 30.0
# For ranks to find each other: a process that has just started loads torch first.
SECONDS_TO_JOIN = 120.0
LOOPBACK = "127.0.0.1"


class ProcessGroupError(RuntimeError):
    """A rank was lost, or the group was told to stop; this process itself is well.

    Attributes
    ----------
    kept : object or None
        What the work on this rank hands to the next process group, such as a checkpoint.
    """

    kept: Any = None


class ProcessGroup:
    """One rank's handle of a process group; made by ``join``.

    Attributes
    ----------
    rank, n_ranks : int
        This rank, from 0, and the number of ranks.
    device : str
        torch's name of the device of the tensors: ``cpu`` (gloo) or ``cuda`` (nccl).
    """

    _as_torch: ClassVar[list[Any]] = []  # the backend that ``as_torch`` hands to torch

    def __init__(self, rank: int, n_ranks: int, device: str, backend: Any = None) -> None:
        self.rank, self.n_ranks, self.device = rank, n_ranks, device
        self._backend, self._store = backend, None
        self._broken = threading.Event()
        self._parts: list[ProcessGroup] = []
        self._join_options: dict[str, Any] = {}  # keywords of ``join``, for parts of the group
        self._spans: list[float] = []  # seconds of each collective since the last tally
        # Sums in flight, each with its backend. A backend is closed when its last reference goes:
        # held here, it outlives its sums and is closed by the thread that computes.
        self._begun: list[tuple[Any, Any]] = []

    @classmethod
    def join(
        cls,
        store: Any,
        rank: int,
        n_ranks: int,
        *,
        secret: bytes,
        device: str = "cpu",
        host: str = LOOPBACK,
        seconds: float = SECONDS,
        stopped: Callable[[], bool] = lambda: False,
    ) -> ProcessGroup:
        """Wait until all ranks have joined, and proved that they belong to this run.

        Parameters
        ----------
        store : torch.distributed.Store
            The same for all ranks.
        rank, n_ranks : int
        secret : bytes
            Known to the ranks of this group alone.
        device : str, default "cpu"
            torch's name of the device.
        host : str, default "127.0.0.1"
            The address at which other ranks reach this one; it listens on no other.
        seconds : float, default 30
            The longest time that a collective may take.
        stopped : function, optional
            Called while waiting; true ends the wait.

        Returns
        -------
        ProcessGroup

        Raises
        ------
        ProcessGroupError
            Not all ranks joined in time, or one does not have the secret.
        """
        if n_ranks == 1:
            return cls(rank, n_ranks, device)
        try:
            # A barrier before torch's own: if a rank is missing, nobody begins to wait for its
            # sockets.
            store.set(f"here {rank}", b"")
            deadline = time.monotonic() + SECONDS_TO_JOIN
            while not store.check([f"here {member}" for member in range(n_ranks)]):
                if stopped() or time.monotonic() > deadline:
                    raise RuntimeError("not all of them came")
                time.sleep(0.05)
            limit = timedelta(seconds=seconds)
            backend = _backend(store, rank, n_ranks, device, host, limit)
            if device == "cpu":  # nccl accepts only peers that have rank 0's identifier
                _refuse_other_processes(backend, rank, n_ranks, secret)
        except (RuntimeError, OSError) as error:  # torch's DistError is a RuntimeError
            raise ProcessGroupError(f"the ranks did not find each other: {error}") from None
        group = cls(rank, n_ranks, device, backend)
        group._store = store  # torch calls its methods later, and does not keep the Python object
        group._join_options = {"secret": secret, "device": device, "host": host, "seconds": seconds}
        group._join_options["stopped"] = stopped
        return group

    def part(self, ranks: Sequence[int]) -> ProcessGroup:
        """A subgroup of these ranks, of which this is one; each of them must make the call."""
        from torch._C._distributed_c10d import PrefixStore

        self.check()
        if len(ranks) == 1:
            return ProcessGroup(0, 1, self.device)
        assert self._store is not None
        store = PrefixStore(f"ranks {list(ranks)} ", self._store)
        part = ProcessGroup.join(store, ranks.index(self.rank), len(ranks), **self._join_options)
        self._parts.append(part)
        return part

    @contextmanager
    def as_torch(self) -> Iterator[Any]:
        """In this context the group is torch's global group, for parts of torch that need one.

        It keeps its connections. A process can have one global group at a time.
        """
        import torch.distributed as torch_distributed
        from torch._C._distributed_c10d import HashStore

        dist: Any = torch_distributed
        self.check()
        backend, name = self._backend, "pleasingly"
        if self.n_ranks == 1:
            backend = _backend(HashStore(), 0, 1, self.device, LOOPBACK, timedelta(seconds=SECONDS))
        if name.upper() not in dir(dist.Backend):
            dist.Backend.register_backend(
                name, lambda *_: self._as_torch[-1], devices=[self.device]
            )
        self._as_torch.append(backend)
        dist.init_process_group(name, store=HashStore(), rank=self.rank, world_size=self.n_ranks)
        try:
            yield dist.group.WORLD
        finally:
            dist.destroy_process_group()
            self._as_torch.clear()

    def sum(self, tensor: torch.Tensor) -> None:
        """Sum a tensor over all ranks, in place.

        Raises
        ------
        ProcessGroupError
            A rank was lost, or the process group was told to stop.
        """
        self._collective("allreduce", tensor)

    def begin_sum(self, tensor: torch.Tensor) -> None:
        """Begin to sum a tensor, in place; it is done when the next ``sum`` returns."""
        self._begin("allreduce", tensor)

    def mean(self, tensor: torch.Tensor) -> None:
        """Average a tensor over all ranks, in place; raises as ``sum`` does."""
        self.sum(tensor)
        tensor /= self.n_ranks

    def broadcast(self, tensor: torch.Tensor) -> None:
        """Copy rank 0's tensor to all ranks, in place; raises as ``sum`` does."""
        self._collective("broadcast", tensor)

    def check(self) -> None:
        """Raise ProcessGroupError if this rank was told to stop; it does not communicate."""
        if self._broken.is_set():
            self._begun.clear()
            raise ProcessGroupError("the process group was told to stop")

    def tally(self) -> tuple[float, float]:
        """Seconds of communication and of waiting in the collectives since the last call.

        All ranks leave a collective together. So the time of the rank that entered last, the
        shortest of all, is communication; whatever another rank spent beyond that, it waited. No
        clocks are compared between ranks. Of sums begun earlier only the time is counted in which a
        later collective waits for them, as this rank can compute nothing then.

        Returns
        -------
        communication, wait : float
        """
        import torch
        from torch.distributed import AllreduceOptions, ReduceOp

        spans, self._spans = self._spans, []
        if self._backend is None or not spans:
            return 0.0, 0.0
        own_spans = torch.tensor(spans, dtype=torch.float64)
        least_spans = own_spans.to(self.device, copy=True)
        options = AllreduceOptions()
        options.reduceOp = ReduceOp.MIN
        self._collective("allreduce", least_spans, options)
        self._spans = []
        communicating = float(least_spans.sum())
        return communicating, float(own_spans.sum()) - communicating

    def abort(self) -> None:
        """Leave the group, from any thread: the next collective or ``check`` raises.

        The connections close as soon as no collective of this rank uses them. The other ranks
        notice that at once, and their collectives also raise.
        """
        self._broken.set()
        for part in self._parts:
            part.abort()
        backend, self._backend = self._backend, None
        if backend is not None and self.device != "cpu":
            backend.abort()  # gloo's interrupts nothing

    def _collective(self, name: str, tensor: torch.Tensor, *options: Any) -> None:
        """Run a collective, and wait for it and those begun before until results can be used."""
        began = self._now()
        self._begin(name, tensor, *options)
        if not self._begun:
            return
        try:
            for _, work in self._begun:
                work.wait()
            # A collective of nccl that is aborted leaves a part of the sum on the device, and
            # wait() does not raise. So the host waits for the device before the sum is used.
            seconds = self._seconds_since(began)
        except RuntimeError as error:
            self._fail(error)
        self.check()
        self._begun.clear()
        self._spans.append(seconds)

    def _begin(self, name: str, tensor: torch.Tensor, *options: Any) -> None:
        backend = self._backend
        self.check()
        if backend is None:
            return
        try:
            self._begun.append((backend, getattr(backend, name)([tensor], *options)))
        except RuntimeError as error:
            self._fail(error)

    def _fail(self, error: RuntimeError) -> NoReturn:
        self._begun.clear()
        self.abort()
        raise ProcessGroupError(str(error).splitlines()[0]) from None

    def _now(self) -> Any:
        """The time now; on a GPU an event at the end of the work that is queued."""
        if self.device == "cpu":
            return time.perf_counter()
        import torch

        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _seconds_since(self, began: Any) -> float:
        """Seconds from a point of ``_now`` to the end of the queued work, which is waited for."""
        end = self._now()
        if self.device == "cpu":
            return float(end - began)
        end.synchronize()
        return float(began.elapsed_time(end)) / 1000


def _backend(store: Any, rank: int, n_ranks: int, device: str, host: str, limit: timedelta) -> Any:
    import torch.distributed as torch_distributed

    dist: Any = torch_distributed  # its stubs lack gloo's options
    if device != "cpu":
        # Otherwise nccl listens on every interface that is up.
        os.environ.setdefault("NCCL_SOCKET_IFNAME", f"={interface_of(host)}")
        # With this, wait() raises if a rank is lost. Otherwise a thread of torch acts as
        # TORCH_NCCL_ASYNC_ERROR_HANDLING says: 3, the default, and 1 end the process, 2 aborts
        # silently and leaves a part of the sum, 0 waits for ever.
        os.environ.setdefault("TORCH_NCCL_BLOCKING_WAIT", "1")
        options = dist.ProcessGroupNCCL.Options()
        options._timeout = limit
        return dist.ProcessGroupNCCL(store, rank, n_ranks, options)
    options = dist.ProcessGroupGloo._Options()
    options._timeout = limit
    # Otherwise gloo listens on the address of the host's name, which may have none.
    options._devices = [dist.ProcessGroupGloo.create_device(hostname=host)]
    return dist.ProcessGroupGloo(store, rank, n_ranks, options)


def interface_of(host: str) -> str:
    """The name of this machine's network interface with this address.

    Raises
    ------
    OSError
        No interface has it.
    """
    import psutil

    for name, addresses in psutil.net_if_addrs().items():
        if host in [address.address for address in addresses]:
            return name
    raise OSError(f"no network interface has the address {host}")


def _refuse_other_processes(backend: Any, rank: int, n_ranks: int, secret: bytes) -> None:
    """Exchange proofs of the secret over every connection, and refuse a peer without it.

    gloo itself accepts whoever connects to its port first with the number of a rank. The proof is
    an HMAC of both ranks' numbers, so that it cannot be replayed on another connection.
    """
    import torch

    def proof(sender: int, receiver: int) -> torch.Tensor:
        shown = hmac.digest(secret, f"rank {sender} to rank {receiver}".encode(), "sha256")
        return torch.frombuffer(bytearray(shown), dtype=torch.uint8)

    peers = [peer for peer in range(n_ranks) if peer != rank]
    sending = [backend.send([proof(rank, peer)], peer, 0) for peer in peers]
    for peer in peers:
        shown = torch.zeros(32, dtype=torch.uint8)
        backend.recv([shown], peer, 0).wait()
        if not hmac.compare_digest(bytes(shown.tolist()), bytes(proof(peer, rank).tolist())):
            raise RuntimeError(f"what connected as rank {peer} does not have this run's secret")
    for work in sending:
        work.wait()
