"""What tests of clusters share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cluster_setup import ClusterError, open_cluster


@pytest.fixture
def refusal() -> Callable[..., str]:
    """A function that gives the one line with which ``open_cluster`` refuses what it is given."""

    def refused(*options: object, **more: object) -> str:
        with pytest.raises(ClusterError) as caught, open_cluster(*options, **more):
            pass
        assert "\n" not in str(caught.value)
        return str(caught.value)

    return refused
