"""The real compiler accepts the kernels; a GPU is not needed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


def missing_library() -> str | None:
    """The first of the compiler's libraries that is not installed."""
    from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib

    for name in ("nvvm", "nvrtc"):
        try:
            load_nvidia_dynamic_lib(name)
        except (DynamicLibNotFoundError, RuntimeError):
            return name
    return None


@pytest.mark.parametrize("name", ["rbf", "linear", "poly", "sigmoid"])
def test_compiles_for_a_gpu(name):
    missing = missing_library()
    if missing is not None:
        pytest.skip(f"lib{missing} is not installed: pip install nvidia-nvvm nvidia-cuda-nvrtc")
    # Another process: in this one numba is the simulator.
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("compile_report.py"), name],
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "0"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"smo {name} <= 64: no local memory" in done.stdout
