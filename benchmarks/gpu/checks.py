"""The table of everything that needs a GPU. A new check is one entry here."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.gpu.device import gpus

GPU = "a GPU"
# Counted from the start of a process: from a cold disk its imports, and kernels of torch, cupy and
# cuDNN, take a minute.
LEAST_LIMIT = 120
SOLVER = ("cupy", "cuml", "sklearn", "pandas", "pyarrow", "psutil")
PATH = ("cupy", "numba", "numba_cuda", "scipy", "threadpoolctl", "psutil")
CLUSTER = ("cupy", "dask", "distributed", "dask_cuda", "pynvml", "pandas", "cryptography")
GRAPH = ("torch", "numba", "pandas", "pyarrow", "scipy", "psutil")
RECORDS = ("pydantic", "pydantic_core")
NETWORKS = ("torch", "sklearn", "ruamel", "psutil", "pandas", "pydantic", "pydantic_core")
COMMAND = (
    *PATH,
    *CLUSTER[1:],
    *RECORDS,
    "sklearn",
    "pyarrow",
    "matplotlib",
    "jinja2",
    "ruamel",
    "safetensors",
)


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
    planned : int
        Seconds it is expected to take at most, all compiled anew. Those of all checks
        together keep within what ``gpu_check`` has.
    """

    name: str
    target: str
    needs: tuple[str, ...]
    planned: int = 10

    @property
    def limit(self) -> int:
        """Seconds after which a process of it is ended: twice the plan, two minutes at least."""
        return max(2 * self.planned, LEAST_LIMIT)


# The cheapest proof first, then results against the CPU's, then times. Those that import cuml come
# last: what they find missing or slow delays no other.
CHECKS = (
    Check("one launch of each kernel", "benchmarks.gpu.first_launches:launch_kernels", PATH, 55),
    Check("memcheck finds nothing", "benchmarks.gpu.first_launches:find_memory_errors", PATH, 25),
    Check("racecheck finds nothing", "benchmarks.gpu.first_launches:find_races", PATH, 28),
    Check("cupy multiplies matrices right", "tests/gpu/test_cupy.py", ("cupy",), 8),
    Check("torch multiplies matrices right", "tests/gpu/test_torch.py", ("torch",), 10),
    Check("rows are placed once", "tests/gpu/test_placement.py", ("cupy", "psutil"), 8),
    Check(
        "solver path agrees with the CPU's", "tests/gpu/test_path_solver.py", (*PATH, "sklearn"), 71
    ),
    Check(
        "a hard table as on the CPU, with Newton's method",
        "benchmarks.gpu.hard_table:compare_hard_table",
        (*PATH, "sklearn", "pandas"),
        20,
    ),
    Check("stacked networks agree with the CPU's", "tests/gpu/test_nn.py", NETWORKS, 25),
    Check("svm_grid --cluster cuda, end to end", "tests/gpu/test_svm_grid.py", COMMAND, 40),
    Check("data_parallel on one GPU", "tests/gpu/test_data_parallel.py", (*COMMAND, "torch"), 20),
    Check("a worker for each GPU", "tests/gpu/test_cuda_cluster.py", CLUSTER, 12),
    Check("PageRank on a GPU agrees with the CPU's", "tests/gpu/test_pagerank.py", GRAPH, 13),
    *(
        Check(
            f"time of the study's grid, {decision}, {n_rows:,} rows",
            f"benchmarks.gpu.path_grid:{decision}_{n_rows}",
            (*PATH, *RECORDS, "sklearn"),
            planned,
        )
        for n_rows, decision, planned in (
            (6_000, "ovo", 6),
            (6_000, "ovr", 10),
            (20_000, "ovo", 12),
            (20_000, "ovr", 32),
            (60_000, "ovo", 30),
            (60_000, "ovr", 12),
        )
    ),
    Check(
        "time of the study's networks",
        "benchmarks.gpu.nn_folds:compare_training",
        (*NETWORKS, "numba"),
        35,
    ),
    Check("time of the study's PageRank", "benchmarks.pagerank_study:time_on_gpu", GRAPH, 13),
    Check(
        "time of both jobs by formation",
        "benchmarks.gpu.formations:time_formations",
        (*COMMAND, "torch"),
        40,
    ),
    Check("solver cuml agrees with sklearn", "tests/gpu/test_cuml_solver.py", SOLVER, 20),
    Check("time of one fit", "benchmarks.gpu.cuml_fits:compare_fits", (*SOLVER, *RECORDS), 15),
)


def missing(needs: Sequence[str]) -> str | None:
    """What a check with these needs lacks here, or None where it can be run."""
    if not gpus():
        return f"needs {GPU}, and CUDA sees none here"
    absent = [name for name in needs if importlib.util.find_spec(name) is None]
    return f"needs {', '.join(absent)}, not installed here" if absent else None


def chosen(names: Sequence[str], checks: Sequence[Check] = CHECKS) -> list[Check]:
    """The checks whose name contains one of ``names``, capitals or not; all where none is given.

    Raises
    ------
    LookupError
        No check has a name like that.
    """
    for name in names:
        if not any(name.lower() in check.name.lower() for check in checks):
            check_names = ", ".join(repr(check.name) for check in checks)
            raise LookupError(
                f"must be part of a check's name, got {name!r}; there are {check_names}"
            )
    wanted = [name.lower() for name in names]
    return [
        check for check in checks if not names or any(part in check.name.lower() for part in wanted)
    ]


def needs_of(file_name: str) -> tuple[str, ...]:
    """What the tests in the file of that name need."""
    for check in CHECKS:
        if check.target.endswith(f"/{file_name}"):
            return check.needs
    raise LookupError(f"{file_name} has no entry in benchmarks/gpu/checks.py")
