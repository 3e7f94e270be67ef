"""What a search needs of a GPU, which a small one beside a large one may not have."""

from __future__ import annotations

import pytest

from cluster_setup import ClusterOptions
from pipelines.errors import InputError
from pipelines.svm_grid import run


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decision": "ovr"}, "decision='ovr' needs"),
        ({}, "decision='ovo' needs"),
        ({"solver": "sklearn"}, ""),
        ({"device": "cpu"}, ""),
    ],
)
def test_a_cluster_is_told_what_the_solver_needs(monkeypatch, tmp_path, options, message):
    cluster_options = list[ClusterOptions]()

    def opened(options, *arguments):
        cluster_options.append(options)
        raise InputError("seen")

    monkeypatch.setattr("pipelines.run.job.opened", opened)
    with pytest.raises(InputError, match="seen"):
        run(cluster="threads", quiet=True, results=str(tmp_path / "run"), **options)
    assert cluster_options[0].too_small(1 << 30) == ""
    assert cluster_options[0].too_small(1 << 16).startswith(message)
    assert bool(cluster_options[0].too_small(1 << 16)) == bool(message)
