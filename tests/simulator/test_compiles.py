"""The real compiler accepts the kernels; a GPU is not needed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def missing_part() -> str | None:
    """The first part of the compiler that is not installed."""
    from cuda.pathfinder import (
        DynamicLibNotFoundError,
        find_nvidia_binary_utility,
        load_nvidia_dynamic_lib,
    )

    for name in ("nvvm", "nvrtc"):
        try:
            load_nvidia_dynamic_lib(name)
        except (DynamicLibNotFoundError, RuntimeError):
            return f"lib{name}"
    return None if find_nvidia_binary_utility("ptxas") else "ptxas"


# Kernels differ in one short device function: the longest stands for all. The others, other
# architectures, and linking as a launch does it: ``make test-gpu-install``.
def test_compiles_for_a_gpu():
    missing = missing_part()
    if missing is not None:
        pytest.skip(f"{missing} is not installed; pip install -c constraints.txt '.[dev]'")
    # Another process: in this one numba is the simulator.
    done = subprocess.run(
        [sys.executable, "-m", "tests.gpu_code.kernels", "--one", "poly", "9.0"], cwd=ROOT,
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "0", "NUMBA_CACHE_DIR": ""},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    kernels = {"fill_kernel", "pulls_kernel", "smo_kernel", "newton_kernel"}
    assert {one["kernel"] for one in found} == kernels
    for one in found:
        assert 0 < one["registers"] <= one["limit"]
        assert one["resident"] >= one["wanted"]
