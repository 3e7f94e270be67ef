from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import dask
import pytest
from distributed import LocalCluster

from cluster_setup import open_cluster
from cluster_setup.kinds import address
from cluster_setup.security import write_keys

Refusal = Callable[..., str]


def test_no_scheduler_at_the_address(refusal: Refusal) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    words = refusal(f"tcp://127.0.0.1:{port}")
    assert f"got tcp://127.0.0.1:{port}:" in words
    assert "refused; start one with 'dask scheduler'" in words
    assert "with a port of at most 65535" in refusal("tcp://nowhere")


def test_a_scheduler_without_workers(monkeypatch: pytest.MonkeyPatch, refusal: Refusal) -> None:
    monkeypatch.setattr(address, "SECONDS_FOR_WORKERS", 0.5)
    with LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0") as cluster:
        words = refusal(cluster.scheduler_address)
    assert "must have 1 worker(s), has 0" in words


@pytest.mark.parametrize("protocol", ["tcp://", "tls://"])
def test_a_running_scheduler_is_used_and_left_running(tmp_path: Path, protocol: str) -> None:
    keys = write_keys(tmp_path)
    tls = keys.get_tls_config_for_role("client")
    setting = "distributed.comm.tls"
    own = {
        f"{setting}.ca-file": tls["ca_file"],
        f"{setting}.client.cert": tls["cert"],
        f"{setting}.client.key": tls["key"],
    }
    with (
        LocalCluster(
            n_workers=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            protocol=protocol,
            security=keys if protocol == "tls://" else None,
        ) as cluster,
        # What a user of a scheduler with TLS has in Dask's own configuration.
        dask.config.set(own if protocol == "tls://" else {}),
    ):
        for numbers in ((1, 2), (3, 4)):
            with open_cluster(cluster.scheduler_address) as client:
                assert client.submit(sum, numbers).result() == sum(numbers)
