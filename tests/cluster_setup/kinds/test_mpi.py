from __future__ import annotations

import os
import sys
from types import SimpleNamespace

from cluster_setup import ClusterOptions
from cluster_setup.kinds.mpi import _take_one_gpu
from tests.cluster_setup.nvml_stand_in import Card


def test_ranks_of_a_node_share_the_gpus_of_use(machine, monkeypatch):
    machine(Card("GTX 1050", "GPU-o", 4, (6, 1)), Card("H200", "GPU-h"), Card("H200", "GPU-i"))
    monkeypatch.setitem(
        sys.modules, "mpi4py", SimpleNamespace(MPI=SimpleNamespace(COMM_TYPE_SHARED=1))
    )
    lines, taken = list[str](), list[str]()
    for rank in range(3):
        on_node = SimpleNamespace(Split=lambda works, rank=rank: SimpleNamespace(rank=rank))
        ranks = SimpleNamespace(rank=rank + 2, Split_type=lambda kind, on_node=on_node: on_node)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2")
        _take_one_gpu(ranks, ClusterOptions("mpi", echo=lines.append))
        taken.append(os.environ["CUDA_VISIBLE_DEVICES"])
    assert taken == ["GPU-h", "GPU-i", "GPU-h"]
    assert len(lines) == 1
    assert lines[0].startswith("left out   GTX 1050, 4 GiB (GPU-o): CUDA 13 needs")
