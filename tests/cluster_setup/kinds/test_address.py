from __future__ import annotations

import socket
from collections.abc import Callable

import dask
import pytest
from distributed import LocalCluster

from cluster_setup import open_cluster, waits
from cluster_setup.security import write_keys

Refusal = Callable[..., str]


def test_no_scheduler_at_the_address(refusal):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    words = refusal(f"tcp://127.0.0.1:{port}")
    assert f"got tcp://127.0.0.1:{port}:" in words
    assert "refused; start one with 'dask scheduler'" in words
    assert "with a port of at most 65535" in refusal("tcp://nowhere")


def test_a_scheduler_without_workers(monkeypatch, refusal):
    monkeypatch.setattr(waits, "SECONDS_FOR_WORKERS", 0.5)
    with LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0") as cluster:
        words = refusal(cluster.scheduler_address)
    assert "must have 1 worker(s), has 0" in words


@pytest.mark.parametrize("protocol", ["tcp://", "tls://"])
def test_a_running_scheduler_is_used_and_left_running(tmp_path, protocol):
    keys = write_keys(tmp_path)
    tls = keys.get_tls_config_for_role("client")
    setting = "distributed.comm.tls"
    tls_settings = {
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
        dask.config.set(tls_settings if protocol == "tls://" else {}),
    ):
        for numbers in ((1, 2), (3, 4)):
            with open_cluster(cluster.scheduler_address) as client:
                assert client.submit(sum, numbers).result() == sum(numbers)


@pytest.mark.parametrize("protocol", ["tcp", "tls", "ws"])
def test_what_takes_a_connection_and_says_nothing_is_not_waited_for(
    protocol, tmp_path, monkeypatch, refusal
):
    monkeypatch.setattr(waits, "SECONDS_TO_ANSWER", 1)
    keys = write_keys(tmp_path).get_tls_config_for_role("client")
    tls_settings = {
        "distributed.comm.tls.ca-file": keys["ca_file"],
        "distributed.comm.tls.client.cert": keys["cert"],
        "distributed.comm.tls.client.key": keys["key"],
    }
    with socket.socket() as silent, dask.config.set(tls_settings):
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        at = f"{protocol}://127.0.0.1:{silent.getsockname()[1]}"
        words = refusal(at)
    assert words.startswith(f"--cluster must be the address of a running scheduler, got {at}: ")
    assert ("certificate that its scheduler" in words) == (protocol == "tls")


@pytest.mark.parametrize(
    ("settings", "variable", "value"),
    [
        ({}, "DASK_DISTRIBUTED__COMM__TLS__CA_FILE", "nothing"),
        ({"ca-file": __file__}, "DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT", "nothing"),
        ({"ca-file": "gone.pem"}, "DASK_DISTRIBUTED__COMM__TLS__CA_FILE", "gone.pem"),
    ],
)
def test_an_encrypted_address_needs_a_certificate(settings, variable, value, refusal):
    tls_settings = {f"distributed.comm.tls.{name}": file for name, file in settings.items()}
    with dask.config.set(tls_settings):
        words = refusal("tls://127.0.0.1:1")
    assert f"{variable} must name a file, got {value}: docs/how-to/own-scheduler.md" in words
    assert "dask scheduler" not in words
