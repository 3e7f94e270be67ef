"""How a run's options become a cluster's."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pipelines.console import quiet_echo
from pipelines.run import cluster
from pipelines.svm_grid import Options


@pytest.mark.parametrize("no_tls", [False, True])
def test_connections_are_encrypted_unless_that_is_refused(
    no_tls: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Opened(Exception):
        pass

    @contextmanager
    def open_cluster(options: Any) -> Any:
        assert options.tls is not no_tls
        raise Opened
        yield

    monkeypatch.setattr(cluster, "open_cluster", open_cluster)
    with (
        pytest.raises(Opened),
        cluster.opened(Options(no_tls=no_tls), "local", 1, tmp_path, quiet_echo),
    ):
        pass
