"""Members of a process group: who is gone, and who is in the next one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="process groups are torch's")

import psutil
import torch

from pipelines.parallel.process_group import worker_group

CLIENT: Any = SimpleNamespace(status="running")


class Looked:
    """What it says of its workers changes from look to look."""

    def __init__(self, *looks):
        self._looks = iter(looks)

    def scheduler_info(self, n_workers):
        assert n_workers == -1
        return {"workers": dict.fromkeys(next(self._looks))}


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(worker_group, "SECONDS_TO_LOOK_AGAIN", 0)


def test_an_old_answer_ends_no_process_group():
    client = Looked(["b"], ["a", "b"])
    assert worker_group.lost_ranks(client, ["a", "b"]) == []


def test_a_worker_that_two_looks_miss_is_gone():
    client = Looked(["b"], ["b"])
    assert worker_group.lost_ranks(client, ["a", "b"]) == ["a"]


@pytest.fixture
def answers(monkeypatch):
    """Which workers answer from which second on; no real second."""
    now, workers_from = [0.0], dict[float, list[str]]()

    def rendezvous(client):
        return workers_from[max(second for second in workers_from if second <= now[0])]

    def sleep(seconds):
        now[0] += seconds

    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=sleep)
    monkeypatch.setattr(worker_group, "time", clock)
    monkeypatch.setattr(worker_group, "rendezvous", rendezvous)
    monkeypatch.setattr(
        worker_group, "forecast_workers", lambda client: SimpleNamespace(coming=0, reason="")
    )
    return workers_from


def test_survivors_wait_a_while_for_a_replacement(answers):
    answers |= {0: ["a"], 9: ["a", "b"]}
    assert worker_group.wait_for_members(CLIENT, 2, 5.0) == ["a"]
    answers[4] = ["a", "b"]
    assert worker_group.wait_for_members(CLIENT, 2, 5.0) == ["a", "b"]


def test_where_all_died_a_group_is_not_begun_with_the_first_that_starts(answers):
    answers |= {0: [], 10: ["a"], 12: ["a", "b"]}
    assert worker_group.wait_for_members(CLIENT, 2, 5.0) == ["a", "b"]


def listening():
    """Return the addresses at which this process listens."""
    connections = psutil.Process().net_connections("tcp")
    return {
        tuple(connection.laddr)
        for connection in connections
        if connection.status == psutil.CONN_LISTEN
    }


def look_around(before, argument, group, send):
    """Return what ranks add up, and where rank 0's process listens that did not before."""
    total = torch.tensor([float(argument + group.rank)])
    group.sum(total)
    send({"kind": "sum", "of": group.rank})
    return total.item(), [host for host, _ in listening() - before]


def test_ranks_tell_and_add_and_open_no_port_but_their_sockets_on_loopback(
    four_workers,
):
    workers = worker_group.rendezvous(four_workers)[:2]
    before = four_workers.run(listening, workers=workers)
    events = []
    ended = worker_group.run_process_group(
        four_workers, workers, look_around, before[workers[0]], 10, events.append
    )
    assert ended.lost is None
    # Rank 0 alone is heard, before it ends; the worker is Dask's word.
    assert events == [{"kind": "sum", "of": 0, "worker": workers[0]}]
    # A store that listened, as torch's does, would be a second port of rank 0.
    assert ended.result == (10 + 11, ["127.0.0.1"])


def test_workers_of_one_host_are_known_by_their_addresses():
    assert worker_group.hosts_of(["tls://10.0.0.1:1", "tls://10.0.0.1:2"]) == {"10.0.0.1"}
    assert worker_group.hosts_of(["tcp://10.0.0.1:1", "tls://[fe80::1]:2"]) == {
        "10.0.0.1",
        "fe80::1",
    }
