"""The GPU packages are installed, of the right versions, and work with this program.

Run by ``make test-gpu-install`` with the Python of ``.venv-gpu``. It needs no GPU:
one line for each package, a last line on what is off, and status 1 if anything is.
"""

from __future__ import annotations

import importlib
import inspect
import shlex
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from unittest.mock import patch

ROOT = Path(__file__).resolve().parents[1]
DASK = "2026.7.1"
RAPIDS = "26.10."

# What is imported -> its distribution, and how its version must begin.
PACKAGES = {
    "dask": ("dask", DASK),
    "distributed": ("distributed", DASK),
    "cupy": ("cupy-cuda13x", ""),
    "cuml": ("cuml-cu13", RAPIDS),
    "cudf": ("cudf-cu13", RAPIDS),
    "dask_cudf": ("dask-cudf-cu13", RAPIDS),
    "cugraph": ("cugraph-cu13", RAPIDS),
    "pylibcugraph": ("pylibcugraph-cu13", RAPIDS),
    "raft_dask": ("raft-dask-cu13", RAPIDS),
    "rmm": ("rmm-cu13", RAPIDS),
    "dask_cuda": ("dask-cuda", RAPIDS),
    "torch": ("torch", ""),
    "dask_jobqueue": ("dask-jobqueue", ""),
}


def package(module):
    """Import a package and hold its version against what we need; what is wrong, or None."""
    distribution, start = PACKAGES[module]
    importlib.import_module(module)
    installed_version = version(distribution)
    print(f"{distribution} {installed_version}")
    if not installed_version.startswith(start):
        return f"{distribution} must be {start}, is {installed_version}"
    return None


def our_gpu_files():
    """The files that know these packages can be imported beside them."""
    from cluster_setup.kinds import cuda
    from pipelines.svm.backends import load_backend, resolve_backend

    if not cuda.is_installed():
        return "cluster_setup.kinds.cuda does not find dask-cuda"
    if resolve_backend("auto", "gpu") != "path":
        return "a GPU's own solver is not path"
    for name in ("path", "cuml"):
        if load_backend(name, "gpu").device != "gpu":
            return f"the solver {name} is not a GPU's"
    print("cluster_setup.kinds.cuda, the solvers path and cuml for a GPU")
    return None


def every_name_is_there():
    """What our sources take from the GPU packages is in them."""
    from tests.gpu_code import names

    missing = list(names.missing())
    print(f"{names.count()} names taken from the GPU packages, {len(missing)} missing")
    return "; ".join(missing) or None


def cuml_converts():
    """cuML converts estimators of scikit-learn with their parameters, and says what it does not."""
    from cuml.internals.interop import InteropMixin
    from sklearn import ensemble, linear_model, neighbors, svm

    from pipelines.search.substitutes import substitute

    able = [
        ensemble.RandomForestClassifier(),
        ensemble.RandomForestRegressor(),
        linear_model.ElasticNet(),
        linear_model.Lasso(),
        linear_model.LinearRegression(),
        linear_model.LogisticRegression(),
        linear_model.Ridge(),
        neighbors.KNeighborsClassifier(p=1),
        neighbors.KNeighborsRegressor(),
        svm.LinearSVC(),
        svm.LinearSVR(),
        svm.SVC(),
        svm.SVR(),
    ]
    with patch.object(InteropMixin, "_sync_attrs_from_cpu"):  # of a fitted one; asks for a driver
        substitutes = {type(estimator).__name__: substitute(estimator, "gpu") for estimator in able}
        refused = substitute(linear_model.Ridge(positive=True), "gpu")
    print(f"{len(substitutes)} estimators that cuML converts")
    wrong = [
        f"{name}: {substitution.reason}"
        for name, substitution in substitutes.items()
        if not substitution.replaced
    ]
    if refused.replaced or "positive" not in refused.reason:
        wrong.append(f"Ridge(positive=True): {refused.reason}")
    knn, machine = (substitutes[name].estimator for name in ("KNeighborsClassifier", "SVC"))
    if (knn.metric, knn.p, machine.decision_function_shape) != ("minkowski", 1, "ovo"):
        wrong.append("parameters are not scikit-learn's")
    return "; ".join(wrong) or None


def workers_take_a_pool_of_rmm():
    """dask-cuda takes what ``--rmm-pool`` gives it, as arguments and on a job's command line."""
    from dask_cuda import LocalCUDACluster
    from dask_cuda.cli import worker
    from rmm import mr

    from cluster_setup import render

    script = str(render("slurm", rmm_pool="0.8", tls=False))
    (line,) = (text for text in script.splitlines() if " cuda worker " in text)
    parameters = worker.make_context(
        "worker", shlex.split(line.partition(" cuda worker ")[2])
    ).params
    taken = {
        name: parameters[name]
        for name in inspect.signature(LocalCUDACluster).parameters
        if name.startswith("rmm_") and parameters[name]
    }
    counts = mr.PoolMemoryResource.pool_size, mr.TrackingResourceAdaptor.get_allocated_bytes
    print(f"dask cuda worker takes {taken}, {', '.join(counter.__name__ for counter in counts)}")
    expected = {"rmm_pool_size", "rmm_track_allocations", "rmm_allocator_external_lib_list"}
    return None if set(taken) == expected else f"dask cuda worker takes {taken} of {line}"


def every_kernel_compiles():
    """Kernels compile as a launch would compile them, and take no more than was kept.

    One of them alone where nothing changed that decides what is compiled.
    """
    from tests.gpu_code import kernels

    return "; ".join(kernels.problems(kernels.due())) or None


def command_has_help():
    """``python -m pipelines.svm_grid --help`` works."""
    done = _svm_grid("--help")
    if done.returncode != 0 or "--solver" not in done.stdout:
        return f"pipelines.svm_grid --help ended with status {done.returncode}: {done.stderr}"
    print("pipelines.svm_grid --help")
    return None


def no_gpu_is_one_line():
    """Without a GPU, ``--cluster cuda`` says so in one line, with status 2."""
    from cluster_setup.on_this_machine.devices import visible_gpus

    if visible_gpus():
        print("pipelines.svm_grid --cluster cuda: not tried without a GPU, for there is one")
        return None
    with tempfile.TemporaryDirectory() as folder:
        done = _svm_grid("--cluster", "cuda", "--results", f"{folder}/run")
    lines = done.stderr.splitlines()
    if done.returncode != 2 or len(lines) != 1 or "needs a GPU" not in lines[0]:
        return f"--cluster cuda without a GPU: status {done.returncode}, stderr {done.stderr!r}"
    print(lines[0])
    return None


def _svm_grid(*options):
    command = [sys.executable, "-m", "pipelines.svm_grid", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def _problems():
    steps = [
        *((name, lambda name=name: package(name)) for name in PACKAGES),
        ("our GPU files", our_gpu_files),
        ("names", every_name_is_there),
        ("cuML's conversion", cuml_converts),
        ("a pool of RMM", workers_take_a_pool_of_rmm),
        ("kernels", every_kernel_compiles),
        ("--help", command_has_help),
        ("--cluster cuda", no_gpu_is_one_line),
    ]
    for name, step in steps:
        try:
            problem = step()
        except Exception as error:
            problem = f"{name}: {type(error).__name__}: {error}"
        if problem:
            yield " ".join(problem.split())


def main():
    """Take every step, whatever became of the one before."""
    sys.path.insert(0, str(ROOT))
    problems = list(_problems())
    for problem in problems:
        print(f"gpu_install: {problem}", file=sys.stderr)
    print("the GPU stack is " + ("NOT as it should be" if problems else "complete"))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
