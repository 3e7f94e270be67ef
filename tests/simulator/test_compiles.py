"""The real compiler accepts the kernels; a GPU is not needed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest


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


# Kernels differ in one short device function: the usual one and the longest stand for all.
@pytest.mark.parametrize("name", ["rbf", "poly"])
def test_compiles_for_a_gpu(name):
    missing = missing_part()
    if missing is not None:
        pytest.skip(f"{missing} is not installed; pip install -c constraints.txt '.[dev]'")
    # Another process: in this one numba is the simulator.
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("compile_report.py"), name],
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "0"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for line in (f"smo {name} <= 64: no local memory, ", f"smo {name} <= 255: no local memory, 0 "):
        assert line in done.stdout
    assert len(re.findall(r"Used \d+ registers", done.stdout)) == 5
