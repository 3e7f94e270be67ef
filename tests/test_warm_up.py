"""What runs compile at first use is compiled beforehand, once."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from cluster_setup.on_this_machine.devices import Gpu, Lack
from pipelines import warm_up
from pipelines.svm import compiled


def output_lines(*words, **environment):
    done = subprocess.run(
        [sys.executable, "-m", "pipelines", *words],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_what_is_there_is_not_compiled_again_and_said_where_it_is():
    output_lines("warm-up", "--device", "cpu")
    for line, folder in zip(
        output_lines("warm-up", "--device", "cpu"), ("cpu", "graph"), strict=True
    ):
        assert line.startswith("there ")
        assert folder in line.rpartition(" ")[2]


@pytest.mark.slow
def test_runs_after_it_compile_nothing(tmp_path):
    def kept():
        return {*tmp_path.rglob("*.nbc")}

    cache_variables = {"NUMBA_CACHE_DIR": str(tmp_path / "numba")}
    solver, ranks = output_lines("warm-up", "--device", "cpu", **cache_variables)
    assert solver.startswith("compiled   SVM solver, CPU: ")
    assert ranks.startswith("compiled   PageRank, CPU: ")
    before = kept()
    small = ["--cluster", "local", "--workers", "2", "--quiet"]
    for number, words in enumerate(
        (
            ["svm-grid", "--n-c", "3", "--n-gamma", "3"],
            ["svm-grid", "--n-c", "3", "--n-gamma", "3", "--decision", "ovr"],
            ["pagerank", "--nodes", "1000"],
        )
    ):
        output_lines(*words, *small, "--results", str(tmp_path / str(number)), **cache_variables)
    assert kept() == before


def test_what_cannot_be_kept_is_an_error(monkeypatch, capsys, tmp_path):
    def solve():
        compiled.COMPILED.append(tmp_path / "none" / "a.nbi")

    monkeypatch.setattr(warm_up, "parts", lambda device: [("all", solve)])
    assert warm_up.main([]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"warm-up: what was compiled for all cannot be kept in {tmp_path}/none")
    assert error.endswith("set NUMBA_CACHE_DIR to a folder with room\n")


@pytest.mark.parametrize(
    ("gpus", "lack", "why"),
    [
        ([], None, "it has none"),
        ([Gpu("K80", "GPU-k", None, (3, 7))], Lack("too old"), "too old"),
    ],
)
def test_without_a_gpu_of_use_there_are_no_kernels(
    monkeypatch,
    capsys,
    gpus,
    lack,
    why,
):
    monkeypatch.setattr(warm_up, "visible_gpus", lambda: gpus)
    monkeypatch.setattr(warm_up, "cuda_lack", lambda: lack)
    assert len([*warm_up.parts("auto")]) == 2
    assert warm_up.main(["--device", "gpu"]) == 2
    assert f"--device gpu needs a GPU that can be used here: {why}; use" in capsys.readouterr().err


def test_kernels_of_all_block_sizes_are_compiled_with_newtons_method_and_without(
    monkeypatch,
):
    from pipelines.svm.cuda import path

    combinations = set[tuple[int, bool]]()

    def search(*problem, launching, xp):
        combinations.add((launching.block_size, launching.hard_members is None))

    monkeypatch.setattr(path, "cross_validate_path_cuda", search)
    warm_up.solve_on_gpu()
    assert combinations == {(size, newton) for size in (32, 128, 256) for newton in (True, False)}
