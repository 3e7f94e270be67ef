"""Compiled functions that are on disk are loaded without what their compilation needs."""

from __future__ import annotations

import json
import subprocess
import sys

SCRIPT = """
import json, sys
import numpy as np
from pipelines.svm.cpu.path import cross_validate_path
from pipelines.svm.cpu.regression import fit_regression

rng = np.random.default_rng(0)
X = rng.normal(size=(200, 3))
y = np.repeat(np.arange(4), 50)
fold = np.arange(0, 200, 2), np.arange(1, 200, 2)
found = []
for some in (200, 100):  # four classes and two
    for decision in ("ovo", "ovr"):
        rows = [part[part < some] for part in fold]
        result = cross_validate_path(
            X[:some], y[:some], 0.5, [1.0, 1e5], [rows], decision=decision, n_threads=1
        )
        found += result.objectives.ravel().tolist()
found.append(fit_regression(X, X[:, 0], C=1e4, gamma=0.1, n_threads=1).objective)
is_lean = "numba.np.linalg" not in sys.modules

from numba import njit

@njit
def total(values):  # whoever compiles afterwards has all that it needs
    return np.linalg.norm(values) + sum([value for value in values])

print(json.dumps([found, is_lean, float(total(np.ones(4)))]))
"""


def test_code_on_disk_needs_no_compiler():
    runs = []
    for _ in range(2):  # the first may compile
        command = [sys.executable, "-c", SCRIPT]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        runs.append(json.loads(done.stdout))
    (first, _, _), (second, is_lean, total) = runs
    assert first == second
    assert is_lean
    assert total == 6.0
