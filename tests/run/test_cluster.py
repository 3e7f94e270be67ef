"""How a run's options become a cluster's."""

from __future__ import annotations

import pytest

from pipelines.console import quiet_echo
from pipelines.run.cluster import choose_cluster
from pipelines.svm_grid import Options


@pytest.mark.parametrize("no_tls", [False, True])
def test_connections_are_encrypted_unless_that_is_refused(no_tls):
    assert choose_cluster(Options(no_tls=no_tls), quiet_echo).tls is not no_tls
