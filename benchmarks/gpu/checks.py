"""The table of everything that needs a GPU. A new check is one entry here."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.gpu.device import gpus

GPU = "a GPU"
SOLVER = ("cupy", "cuml", "sklearn")
PATH = ("cupy", "numba", "numba_cuda")
CLUSTER = ("cupy", "dask", "distributed", "dask_cuda", "pynvml")
COMMAND = (
    "cuml", "sklearn", *CLUSTER, "pandas", "pyarrow", "matplotlib", "jinja2", "rich", "safetensors",
)  # fmt: skip


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes
    ----------
    name : str
    target : str
        A file of tests, or ``package.module:function`` of a benchmark.
    needs : tuple of str
        Modules that must be installed, besides a GPU.
    seconds : int
        After which it is ended.
    """

    name: str
    target: str
    needs: tuple[str, ...]
    seconds: int = 90


CHECKS = (
    Check("cupy multiplies matrices right", "tests/gpu/test_cupy.py", ("cupy",)),
    Check("torch multiplies matrices right", "tests/gpu/test_torch.py", ("torch",)),
    Check("rows are placed once", "tests/gpu/test_placement.py", ("cupy",)),
    Check(
        "solver path agrees with the CPU's",
        "tests/gpu/test_path_solver.py",
        (*PATH, "sklearn", "threadpoolctl"),
        150,
    ),
    Check(
        "time of the study's grid", "benchmarks.gpu.path_grid:time_grid", (*PATH, "sklearn"), 150
    ),
    Check("solver cuml agrees with sklearn", "tests/gpu/test_cuml_solver.py", SOLVER, 150),
    Check(
        "svm_grid --cluster cuda, end to end",
        "tests/gpu/test_svm_grid.py",
        COMMAND,
        150,
    ),
    Check(
        "stacked networks agree with the CPU's",
        "tests/gpu/test_nn.py",
        ("torch", "sklearn", "yaml", "safetensors"),
        120,
    ),
    Check(
        "time of the study's networks",
        "benchmarks.gpu.nn_folds:compare_training",
        ("torch", "sklearn", "yaml", "safetensors"),
        150,
    ),
    Check("a worker for each GPU", "tests/gpu/test_cuda_cluster.py", CLUSTER),
    Check("time of one fit", "benchmarks.gpu.cuml_fits:compare_fits", SOLVER, 180),
)


def missing(needs: Sequence[str]) -> str | None:
    """What a check with these needs lacks here, or None where it can be run."""
    if not gpus():
        return f"needs {GPU}, and CUDA sees none here"
    absent = [name for name in needs if importlib.util.find_spec(name) is None]
    return f"needs {', '.join(absent)}, not installed here" if absent else None


def needs_of(file_name: str) -> tuple[str, ...]:
    """What the tests in the file of that name need."""
    for check in CHECKS:
        if check.target.endswith(f"/{file_name}"):
            return check.needs
    raise LookupError(f"{file_name} has no entry in benchmarks/gpu/checks.py")
