"""Ranks in threads: sums, the tally of time, and what the others see when one is lost."""

from __future__ import annotations

import os
import threading
import time
from types import SimpleNamespace

import psutil
import pytest

pytest.importorskip("torch", reason="process groups are torch's")

import torch
from torch.distributed import HashStore

from pipelines.parallel.process_group.group import ProcessGroup, ProcessGroupError, interface_of
from tests.parallel.process_group.ranks import on_ranks


@pytest.mark.parametrize("n_ranks", [1, 2, 3])
def test_a_sum_a_mean_and_a_broadcast_are_the_same_everywhere(n_ranks):
    def work(group):
        total, mean = (torch.full((5,), float(group.rank + 1)) for _ in range(2))
        first = torch.full((2,), float(group.rank + 7))
        group.sum(total)
        group.mean(mean)
        group.broadcast(first)
        return total[0].item(), mean[0].item(), first[0].item()

    expected = n_ranks * (n_ranks + 1) / 2
    assert on_ranks(n_ranks, work) == [(expected, expected / n_ranks, 7.0)] * n_ranks


def test_the_rank_that_comes_last_communicates_and_the_others_wait():
    def work(group):
        time.sleep(group.rank)
        group.sum(torch.ones(10))
        return group.tally()

    (communicating, waited), (also, last) = on_ranks(2, work)
    assert communicating == also < waited
    assert last < waited


def test_what_is_computed_while_a_sum_goes_on_is_no_communication():
    """The seconds in which a rank can do nothing else: from the ``sum`` that waits."""

    def work(group):
        began = time.perf_counter()
        group.begin_sum(torch.ones(10))
        time.sleep(0.5)
        group.sum(torch.ones(10))
        return group._spans, time.perf_counter() - began

    for stood_still, seconds in on_ranks(2, work):
        assert len(stood_still) == 1
        assert sum(stood_still) <= seconds - 0.5


def test_a_rank_that_leaves_breaks_the_group_at_once():
    def work(group):
        group.sum(torch.ones(3))
        if group.rank == 1:
            group.abort()
        began = time.monotonic()
        try:
            group.sum(torch.ones(3))
        except ProcessGroupError:
            return time.monotonic() - began

    assert max(on_ranks(3, work, seconds=60)) < 30  # not by running out of time


def test_a_rank_that_computes_is_told_to_stop_by_another_thread():
    def work(group):
        threading.Timer(0.1, group.abort).start()
        for _ in range(1000):
            group.check()
            time.sleep(0.01)

    assert [type(result) for result in on_ranks(2, work)] == [ProcessGroupError, ProcessGroupError]


def test_a_rank_that_never_comes_is_not_waited_for_once_that_is_known():
    with pytest.raises(ProcessGroupError, match="not all of them came"):
        ProcessGroup.join(HashStore(), 0, 2, secret=b"ours", stopped=lambda: True)


def test_a_rank_without_the_secret_is_refused_by_name():
    first_error, stranger = on_ranks(2, lambda group: group.rank, secrets=[b"ours", b"guessed"])
    assert isinstance(first_error, ProcessGroupError)
    assert isinstance(stranger, ProcessGroupError)
    assert "what connected as rank 1 does not have this run's secret" in str(first_error)


def test_ranks_on_one_host_listen_on_its_loopback_alone():
    def listening():
        return {
            tuple(connection.laddr)
            for connection in psutil.Process().net_connections("tcp")
            if connection.status == psutil.CONN_LISTEN
        }

    before = listening()  # of what other tests left open in this process
    hosts = on_ranks(2, lambda group: {host for host, _ in listening() - before})
    assert hosts == [{"127.0.0.1"}] * 2


def test_an_address_has_an_interface():
    assert interface_of("127.0.0.1") == "lo"
    with pytest.raises(OSError, match=r"no network interface has the address 203\.0\.113\.1"):
        interface_of("203.0.113.1")


class Device:
    """A backend like NCCL: ``wait()`` returns at once, the device finishes when it is asked."""

    def __init__(self, monkeypatch, at_the_end):
        self._at_the_end, self._begun, self.n_waits = at_the_end, [], 0
        monkeypatch.setattr(torch.cuda, "Event", self._event)

    def _event(self, enable_timing):
        """A point in time after what has begun: 0.25 s for each sum before it."""
        assert enable_timing
        before = list[torch.Tensor]()
        return SimpleNamespace(
            record=lambda: before.extend(self._begun),
            synchronize=lambda: self._finish(before),
            elapsed_time=lambda later: 250.0 * (later.n() - len(before)),
            n=lambda: len(before),
        )

    def allreduce(self, tensors):
        self._begun += tensors
        return SimpleNamespace(wait=lambda: None)

    def abort(self):
        pass

    def _finish(self, sums):
        self.n_waits += 1
        for total in sums:
            self._at_the_end(total)


def test_a_sum_is_given_when_the_device_has_it(monkeypatch):
    device = Device(monkeypatch, lambda total: total.fill_(3))
    group = ProcessGroup(0, 2, "cuda", device)
    totals = torch.ones(3, 2)
    group.begin_sum(totals[0])
    group.begin_sum(totals[1])
    assert device.n_waits == 0
    group.sum(totals[2])
    assert totals.tolist() == [[3, 3]] * 3
    assert device.n_waits == 1, "once for all of them"
    # The device has begun two before there was nothing else to do: the time of one is counted.
    assert group._spans == [0.25]


def test_a_sum_that_was_aborted_on_the_device_is_not_given(monkeypatch):
    def cut_short(total):
        total[0] = 3
        group.abort()

    group = ProcessGroup(0, 2, "cuda", Device(monkeypatch, cut_short))
    with pytest.raises(ProcessGroupError, match="told to stop"):
        group.sum(torch.ones(2))


def test_nccl_is_asked_to_wait_on_the_host(monkeypatch):
    calls = []

    class Backend:
        Options = SimpleNamespace

        def __init__(self, store, rank, n_ranks, options):
            calls.append((dict(os.environ), options._timeout.total_seconds()))

    monkeypatch.setattr(torch.distributed, "ProcessGroupNCCL", Backend)
    for users, expected in ({}, "1"), ({"TORCH_NCCL_BLOCKING_WAIT": "0"}, "0"):
        monkeypatch.setattr(os, "environ", users)
        store = HashStore()
        store.set("here 1", b"")
        ProcessGroup.join(store, 0, 2, secret=b"ours", device="cuda", seconds=7)
        environment, seconds = calls.pop()
        assert environment["TORCH_NCCL_BLOCKING_WAIT"] == expected
        assert environment["NCCL_SOCKET_IFNAME"] == "=lo"
        assert seconds == 7
