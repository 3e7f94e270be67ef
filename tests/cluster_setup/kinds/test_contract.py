"""The kinds of this machine keep the contract of clusters."""

from __future__ import annotations

import pytest

from cluster_setup import ClusterOptions
from cluster_setup.kinds import cuda
from cluster_setup.on_this_machine.devices import visible_gpus
from pipelines.testing import ClusterKindContract


class TestKinds(ClusterKindContract):
    @pytest.fixture(params=["threads", "local", "cuda"])
    def options(self, request):
        if request.param == "cuda" and not (cuda.is_installed() and visible_gpus()):
            pytest.skip("--cluster cuda needs dask-cuda and a GPU, one of which is missing here")
        return ClusterOptions(request.param, workers=2, dashboard="off")
