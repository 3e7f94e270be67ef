"""Ranks that compute together: how they find each other, what they add up, how they end.

Plain torch; ranks may be processes on many hosts or threads of one. Groups are made without
torch's global one, so that a process that lost a process group can join the next.
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

# Of a collective: a rank that waits longer has lost its process group.
SECONDS = 30.0
# Of finding each other: a process that has just started loads torch first.
SECONDS_TO_JOIN = 120.0
LOOPBACK = "127.0.0.1"


class ProcessGroupError(RuntimeError):
    """A rank is gone, or was told to stop; the process is well.

    Attributes
    ----------
    kept : what the work wants to be remembered, or None
    """

    kept: Any = None


class ProcessGroup:
    """One rank's handle of a process group.

    Attributes
    ----------
    rank, n_ranks : int
    device : str
        torch's name of where its tensors are: ``cpu`` (gloo) or ``cuda`` (nccl).
    """

    _as_torch: ClassVar[list[Any]] = []  # the backend that torch is given next

    def __init__(self, rank: int, n_ranks: int, device: str, backend: Any = None) -> None:
        self.rank, self.n_ranks, self.device = rank, n_ranks, device
        self._backend, self._store = backend, None
        self._broken = threading.Event()
        self._parts: list[ProcessGroup] = []
        self._join_options: dict[str, Any] = {}  # it was joined, and its parts are
        self._spans: list[float] = []  # seconds of each collective since the last tally
        # Sums that are not waited for yet, each with the backend: that is closed when nothing has
        # it any more, which takes until they end, so by the thread that computes.
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
        """Wait until all ranks are there, and have shown that they are this run's.

        Parameters
        ----------
        store : torch.distributed.Store, the same for all ranks
        secret : that ranks of this group have, and nobody else
        host : address by which this rank is to be reached; it listens on no other
        seconds : that a collective may take
        stopped : asked meanwhile, whether there is no use in waiting

        Raises
        ------
        ProcessGroupError
            They were not all there in time, or one does not have the secret.
        """
        if n_ranks == 1:
            return cls(rank, n_ranks, device)
        try:
            # A barrier of our own: where one is missing, nobody begins to wait for its sockets.
            store.set(f"here {rank}", b"")
            deadline = time.monotonic() + SECONDS_TO_JOIN
            while not store.check([f"here {member}" for member in range(n_ranks)]):
                if stopped() or time.monotonic() > deadline:
                    raise RuntimeError("not all of them came")
                time.sleep(0.05)
            limit = timedelta(seconds=seconds)
            backend = _backend(store, rank, n_ranks, device, host, limit)
            if device == "cpu":  # nccl takes connections from holders of rank 0's identifier alone
                _refuse_strangers(backend, rank, n_ranks, secret)
        except (RuntimeError, OSError) as error:  # torch's DistError is a RuntimeError
            raise ProcessGroupError(f"the ranks did not find each other: {error}") from None
        group = cls(rank, n_ranks, device, backend)
        group._store = store  # torch calls the methods of a store that Python must keep
        group._join_options = {"secret": secret, "device": device, "host": host, "seconds": seconds}
        group._join_options["stopped"] = stopped
        return group

    def part(self, ranks: Sequence[int]) -> ProcessGroup:
        """A group of some ranks, this one among them; each of them calls this."""
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
        """Be torch's global group, for parts of torch that take no other.

        The sockets stay those of this group. A process can be in one such at a time.
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
        """Add up a tensor over all ranks, in place.

        Raises
        ------
        ProcessGroupError
            A rank is gone, or the process group was told to stop.
        """
        self._collective("allreduce", tensor)

    def begin_sum(self, tensor: torch.Tensor) -> None:
        """Begin to add up a tensor, in place; it is there once the next ``sum`` returns."""
        self._begin("allreduce", tensor)

    def mean(self, tensor: torch.Tensor) -> None:
        """Average a tensor over all ranks, in place; raises as ``sum``."""
        self.sum(tensor)
        tensor /= self.n_ranks

    def broadcast(self, tensor: torch.Tensor) -> None:
        """Give all ranks rank 0's tensor; raises as ``sum``."""
        self._collective("broadcast", tensor)

    def check(self) -> None:
        """Raise ProcessGroupError if this rank was told to stop; without communication."""
        if self._broken.is_set():
            self._begun.clear()
            raise ProcessGroupError("the process group was told to stop")

    def tally(self) -> tuple[float, float]:
        """Return seconds of communicating and of waiting, in collectives since the last call.

        Of sums that were begun before a collective those in which it waits for them are counted:
        then this rank can do nothing else.

        All ranks leave a collective together: its cost is the time of the rank that came last,
        the least of all; what another spent more in it, that one waited. No clocks are compared.
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
        """Leave the group, from any thread: the next collective, or check, raises.

        The sockets close as soon as no collective of this rank uses them, which the others
        notice at once: theirs raise too.
        """
        self._broken.set()
        for part in self._parts:
            part.abort()
        backend, self._backend = self._backend, None
        if backend is not None and self.device != "cpu":
            backend.abort()  # of gloo it interrupts nothing

    def _collective(self, name: str, tensor: torch.Tensor, *options: Any) -> None:
        """Run a collective; return once its result can be used, and those begun before."""
        began = self._now()
        self._begin(name, tensor, *options)
        if not self._begun:
            return
        try:
            for _, work in self._begun:
                work.wait()
            # Of a collective that was aborted here NCCL's device has a part of the sum, and wait()
            # does not raise: the host waits for the device, and knows before the sum is used.
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
        """A point in time: of the host, or that at which the device has done its queued work."""
        if self.device == "cpu":
            return time.perf_counter()
        import torch

        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _seconds_since(self, began: Any) -> float:
        """Seconds between a point and the last of what is queued, for which the host waits."""
        end = self._now()
        if self.device == "cpu":
            return float(end - began)
        end.synchronize()
        return float(began.elapsed_time(end)) / 1000


def _backend(store: Any, rank: int, n_ranks: int, device: str, host: str, limit: timedelta) -> Any:
    import torch.distributed as torch_distributed

    dist: Any = torch_distributed  # its stubs lack what gloo's options are made of
    if device != "cpu":
        # Else nccl listens on every interface that is up.
        os.environ.setdefault("NCCL_SOCKET_IFNAME", f"={interface_of(host)}")
        # wait() raises where a rank is lost. Else a thread of torch's acts on it, as
        # TORCH_NCCL_ASYNC_ERROR_HANDLING says: 3, the default, and 1 end the process, 2 aborts
        # unseen and leaves a part of the sum, 0 waits for ever.
        os.environ.setdefault("TORCH_NCCL_BLOCKING_WAIT", "1")
        options = dist.ProcessGroupNCCL.Options()
        options._timeout = limit
        return dist.ProcessGroupNCCL(store, rank, n_ranks, options)
    options = dist.ProcessGroupGloo._Options()
    options._timeout = limit
    # Else gloo listens on the address that the host's name has, which may be none.
    options._devices = [dist.ProcessGroupGloo.create_device(hostname=host)]
    return dist.ProcessGroupGloo(store, rank, n_ranks, options)


def interface_of(host: str) -> str:
    """Return the name of this machine's network interface that has an address."""
    import psutil

    for name, addresses in psutil.net_if_addrs().items():
        if host in [address.address for address in addresses]:
            return name
    raise OSError(f"no network interface has the address {host}")


def _refuse_strangers(backend: Any, rank: int, n_ranks: int, secret: bytes) -> None:
    """Let the other end of every connection show the secret, and show it there.

    gloo takes whoever connects to its port first and names the right number.
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
