from __future__ import annotations

import pytest

from cluster_setup import ClusterError, open_cluster


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"profile": "sulis"}, "--profile is for --cluster slurm, pbs, sge, mpi, got"),
        ({"adaptive": (1, 2)}, "--adaptive is for --cluster slurm, pbs, sge, got --cluster local"),
        ({"adaptive": (3, 2)}, "--adaptive must be two numbers, 1 or more, the smaller first"),
        ({"adaptive": (1, 2), "workers": 2}, "--workers and --adaptive exclude each other"),
        ({"workers": 0}, "--workers must be at least 1, got 0"),
        ({"workers": 10**11}, "--workers must be at most 10000, got 100000000000; ask for fewer"),
        ({"workers": 10**4}, "with --cluster local, what this machine's memory holds, got 10000"),
        ({"rmm_pool": "8GB"}, "--rmm-pool is for --cluster cuda, slurm, pbs, sge, got --cluster"),
        ({"rmm_pool": "lots"}, "--rmm-pool must be a size such as 8GB, or a share of the GPU's"),
        ({"rmm_pool": "0.0"}, "memory such as 0.8, got '0.0'; leave it out for none"),
        ({"rmm_pool": "8GB", "device": "cpu"}, "--rmm-pool and --device cpu exclude each other"),
        ({"rmm_pool": "1"}, "memory such as 0.8, got '1'; leave it out for none"),
        ({"adaptive": (1, 10**5)}, "--adaptive must be at most 10000, got 100000; ask for fewer"),
    ],
)
def test_options_that_cannot_be(options, words):
    with pytest.raises(ClusterError) as caught, open_cluster("local", **options):
        pass
    assert words in str(caught.value)
