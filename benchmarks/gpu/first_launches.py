"""One launch of each kernel, by itself and under NVIDIA's compute-sanitizer."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any
from unittest import SkipTest
from unittest.mock import patch

import numpy as np

from benchmarks.gpu.figures import note

ROOT = Path(__file__).resolve().parents[2]
TOOL = "compute-sanitizer"
FOUND_SOMETHING = 9
AGREED = "every kernel was launched, and agrees"
# CuPy's own kernels, whose warps read what others write: racecheck warns of its nonzero.
OF_CUPY = re.compile(r"between .* access at cupy_.*\n.* and .* access at cupy_")
CS, GAMMAS = (0.1, 1e4), (0.01, 0.3)  # the large one is hard: Newton's method is taken


def launch_kernels(n_rows: int = 48, xp: Any = None) -> None:
    """Search a tiny grid of a noisy table, one-vs-one and one-vs-rest, and compare with the CPU.

    All kernels of rbf are launched in blocks of several warps: sums of classes, scores, SMO with
    Newton's method for rows of few features and of many, and SMO alone. Each on the distances of
    all rows, and pair by pair, as where those of all do not fit.

    Parameters
    ----------
    xp : array module; None for cupy

    Raises
    ------
    AssertionError
        The results are not the CPU's.
    """
    from pipelines.svm.cpu.path import cross_validate_path
    from pipelines.svm.cuda import path
    from pipelines.svm.cuda.gpu import array_module
    from pipelines.svm.cuda.hard import MOST_FEATURES
    from pipelines.svm.cuda.launches import Launching
    from pipelines.svm.cuda.memory import plan_memory

    rng = np.random.default_rng(0)
    y = np.arange(n_rows) % 3
    X = (rng.normal(size=(n_rows, 4)) + 0.5 * y[:, None]).astype(np.float32)
    rows = np.arange(n_rows)
    folds = [(rows[rows % 2 == half], rows[rows % 2 != half]) for half in (0, 1)]
    xp = array_module(xp)

    def in_parts(*sizes: Any, **blocks: Any) -> Any:
        return replace(plan_memory(*sizes, **blocks), whole=False, score_rows=n_rows // 2)

    # As for some thousand rows: so few have blocks of one warp.
    usual = Launching.for_rows(1000)
    axes, _ = np.linalg.qr(rng.normal(size=(MOST_FEATURES + 1, X.shape[1])))
    searches = (X, usual), (X @ axes.T, usual), (X, replace(usual, hard_members=0))
    for decision, plans in (("ovo", (plan_memory, in_parts)), ("ovr", (plan_memory,))):
        cpu = cross_validate_path(X, y, GAMMAS, CS, folds, decision=decision)
        for (data, launching), planned in product(searches, plans):
            with patch.object(path, "plan_memory", planned):
                gpu = path.cross_validate_path_cuda(
                    xp.asarray(data),
                    y,
                    GAMMAS,
                    CS,
                    folds,
                    decision=decision,
                    launching=launching,
                    xp=xp,
                )
            np.testing.assert_array_equal(gpu.status, cpu.status)
            np.testing.assert_allclose(gpu.objectives, cpu.objectives, rtol=1e-3, atol=1e-6)


def find_memory_errors() -> None:
    """Launch every kernel with each of its reads and writes checked."""
    # Libraries ask drivers for functions that those lack, and go on: no error of ours.
    _under_sanitizer("memcheck", "--report-api-errors", "no")


def find_races() -> None:
    """Launch every kernel with what its threads share checked: no two without a barrier between."""
    _under_sanitizer("racecheck")


def _under_sanitizer(tool: str, *options: str) -> None:
    toolkit = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    program = shutil.which(TOOL) or shutil.which(TOOL, path=f"{toolkit}/bin:{toolkit}/{TOOL}")
    if program is None:
        raise SkipTest(f"{TOOL} is neither on PATH nor in {toolkit}; set CUDA_HOME")
    done = subprocess.run(
        [
            program,
            "--tool",
            tool,
            *options,
            "--error-exitcode",
            str(FOUND_SOMETHING),
            sys.executable,
            "-c",
            f"from benchmarks.gpu.first_launches import *; launch_kernels(); print({AGREED!r})",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    output = (done.stdout + done.stderr).strip()
    # A status that is not the tool's own is the program's: kernels that do not agree.
    is_fine = done.returncode == 0 or (done.returncode == FOUND_SOMETHING and _is_of_cupy(output))
    assert is_fine, f"{tool} ended with status {done.returncode}\n{output}"
    note(f"{tool}: {output.splitlines()[-1] if output else 'nothing said'}")


def _is_of_cupy(output: str) -> bool:
    """Whether all races lie in CuPy's own kernels, and ours were launched to the last."""
    return AGREED in output and len(OF_CUPY.findall(output)) == output.count("Race reported") > 0
