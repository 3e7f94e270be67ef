"""The kinds of this machine keep the contract of clusters."""

from __future__ import annotations

import pytest

from cluster_setup import ClusterOptions
from pipelines.testing import ClusterKindContract


class TestKinds(ClusterKindContract):
    @pytest.fixture(params=["threads", "local"])
    def options(self, request):
        return ClusterOptions(request.param, workers=2, dashboard="off")
