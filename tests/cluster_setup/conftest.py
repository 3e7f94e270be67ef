"""What tests of clusters share."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError

import pytest

from cluster_setup import ClusterError, open_cluster
from cluster_setup.on_this_machine import devices
from tests.cluster_setup.nvml_stand_in import stand_in


@pytest.fixture
def refusal():
    """A function that gives the one line with which ``open_cluster`` refuses what it is given."""

    def refused(*options, **keywords):
        with pytest.raises(ClusterError) as caught, open_cluster(*options, **keywords):
            pass
        assert "\n" not in str(caught.value)
        return str(caught.value)

    return refused


@pytest.fixture
def machine(monkeypatch):
    """A function that gives this machine other GPUs, and the driver and packages for them."""
    # Dask has imported its own, and may have found nothing.
    monkeypatch.setattr(devices, "_has_nvml", lambda: True)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def has(*cards, driver="580.65.06", package="cupy-cuda13x"):
        def version(name):
            if name != package:
                raise PackageNotFoundError
            return "14.2.0"

        monkeypatch.setitem(sys.modules, "pynvml", stand_in(*cards, driver=driver))
        monkeypatch.setattr(devices, "version", version)

    return has
