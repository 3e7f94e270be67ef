from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from importlib.util import find_spec

import pytest
from distributed.client import AllExit

from cluster_setup import KINDS, resolve_kind

Refusal = Callable[..., str]


def test_a_kind_is_a_name_in_the_table_or_an_address():
    assert [resolve_kind(kind) for kind in KINDS] == list(KINDS)
    assert resolve_kind("tls://node1:8786") == "tls://node1:8786"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("locla", "got 'locla'; did you mean local?"),
        ("node1:8786", "for instance tcp://127.0.0.1:8786"),
        ("tls://host:99999", "a port of at most 65535, got 'tls://host:99999'"),
        ("slrum", "got 'slrum'; did you mean slurm?"),
    ],
)
def test_an_unknown_kind_is_refused(kind, words, refusal):
    assert words in refusal(kind)


def test_auto_with_a_profile_is_its_queue():
    assert resolve_kind("auto", "apocrita") == "sge"


@pytest.mark.skipif(
    find_spec("dask_jobqueue") is None, reason="no queues: dask-jobqueue is not installed"
)
@pytest.mark.parametrize("kind", ["slurm", "pbs", "sge"])
def test_a_queue_whose_commands_are_not_here(monkeypatch, kind, refusal):
    monkeypatch.setenv("PATH", "")
    words = refusal(kind)
    assert words.startswith(f"--cluster {kind} needs the command ")
    assert words.endswith("which is not here; start on a login node, or use --cluster local")


def test_a_queue_without_its_package(monkeypatch, tmp_path, refusal):
    """An interface of the profile is not blamed for it."""
    (tmp_path / "sbatch").touch(mode=0o755)
    profile = tmp_path / "here.yaml"
    profile.write_text(f"queue: slurm\nshared_folder: {tmp_path}/shared\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "dask_jobqueue", None)
    words = refusal("slurm", profile=str(profile))
    assert words.startswith("--cluster slurm needs dask-jobqueue, which is not installed here; run")
    assert "interface" not in words


def test_what_dask_leaves_after_ctrl_c_is_no_line(one_worker, caplog):
    caplog.set_level(logging.ERROR)  # Dask has silenced this handler, too
    log = logging.getLogger("asyncio")
    for error in (AllExit(), ValueError("worth a line")):
        log.error("never retrieved", exc_info=error)
    (record,) = caplog.records
    assert "worth a line" in str(record.exc_info)


def test_only_loopback_is_listened_on(one_worker):
    assert one_worker.scheduler.address.startswith("tls://127.0.0.1:")
    server = one_worker.cluster.scheduler.http_server
    sockets = server._sockets.values()
    assert {listening.getsockname()[0] for listening in sockets} == {"127.0.0.1"}
