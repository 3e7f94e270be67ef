from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest
from distributed import Client, Security

from cluster_setup import ClusterError, open_cluster
from cluster_setup.security import private_folder, write_keys

NOBODY = 65534


@pytest.mark.slow
def test_a_client_without_the_certificate_is_refused(one_worker):
    address = one_worker.scheduler.address
    assert address.startswith("tls://127.0.0.1:")
    worker = next(iter(one_worker.scheduler_info()["workers"]))
    assert worker.startswith("tls://127.0.0.1:")
    for tried in (address, address.replace("tls://", "tcp://")):
        with pytest.raises((OSError, TypeError, RuntimeError, ValueError)):
            Client(tried, timeout=3, set_as_default=False)
        gc.collect()  # what is left of it would hold up the start of the next, wherever collected
    with pytest.raises(OSError, match=r"(?i)tls|ssl|certificate|closed|timed out"):
        Client(address, security=Security.temporary(), timeout=3, set_as_default=False)
    assert one_worker.submit(sum, (1, 2)).result() == 3  # nobody is hurt


def test_without_tls_is_warned_of():
    lines = []
    with open_cluster("local", 1, tls=False, echo=lines.append) as client:
        assert client.scheduler.address.startswith("tcp://127.0.0.1:")
    assert len(lines) == 1
    assert lines[0].startswith("warning    --no-tls: anybody who reaches the ports")


def test_keys_are_for_their_owner_and_gone_afterwards(tmp_path):
    shared = tmp_path / "shared"
    with private_folder(shared) as folder:
        keys = write_keys(folder)
        assert shared.stat().st_mode & 0o777 == 0o700
        assert folder.stat().st_mode & 0o777 == 0o700
        key = Path(keys.tls_worker_key)
        assert key.parent == folder
        assert key.stat().st_mode & 0o777 == 0o600
        assert "PRIVATE KEY" in key.read_text()
    assert list(shared.iterdir()) == []


def test_what_a_killed_run_left_is_removed_by_the_next(tmp_path):
    code = (
        "import os, sys; from pathlib import Path\n"
        "from cluster_setup.security import private_folder, write_keys\n"
        "with private_folder(Path(sys.argv[1])) as folder:\n"
        "    write_keys(folder)\n"
        "    os.kill(os.getpid(), 9)"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path)])
    assert killed.returncode == -9
    assert len(list(tmp_path.glob("*/key.pem"))) == 1
    with private_folder(tmp_path) as first, private_folder(tmp_path) as other:
        assert sorted(tmp_path.iterdir()) == sorted([first, other])  # those that run stay


def test_a_host_whose_name_begins_as_ours_keeps_its_keys(tmp_path, monkeypatch):
    nobody = 2**22 + 1  # more than Linux counts processes
    monkeypatch.setattr("socket.gethostname", lambda: "node")
    theirs = tmp_path / f"node-{nobody}-{nobody}-abcdefgh"
    ours = tmp_path / f"node-{nobody}-abcdefgh"
    theirs.mkdir()
    ours.mkdir()
    with private_folder(tmp_path):
        assert theirs.exists()
        assert not ours.exists()


def test_a_shared_folder_that_all_may_change_is_refused(tmp_path):
    tmp_path.chmod(0o777)
    with (
        pytest.raises(ClusterError, match=r"open to all who may write.*mode 777; chmod"),
        private_folder(tmp_path),
    ):
        pass
    tmp_path.chmod(0o1777)  # as /tmp
    with private_folder(tmp_path) as folder:
        assert folder.is_dir()


@pytest.fixture
def not_root():
    """Root may write anywhere: be nobody for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    yield
    os.seteuid(0)


@pytest.mark.usefixtures("not_root")
def test_a_shared_folder_that_cannot_be_written():
    with pytest.raises(ClusterError, match="shared_folder must be a folder of yours"):
        private_folder(Path("/new")).__enter__()


def test_a_shared_folder_that_is_a_file(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(ClusterError, match="shared_folder must be a folder of yours"),
        private_folder(tmp_path / "file"),
    ):
        pass
