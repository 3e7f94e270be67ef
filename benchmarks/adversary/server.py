"""A process that has imported the program and forks for each command line: imports take longest.

It reads a line of JSON ``[argv, cwd, out, err]`` and writes the child's number, then its status.
Started by its path, so that what it imports is the tree on ``PYTHONPATH``.
"""

import importlib
import json
import os
import runpy
import sys

HEAVY = (
    "sklearn.model_selection",
    "sklearn.pipeline",
    "sklearn.neighbors",
    "sklearn.tree",
    "pandas",
    "pyarrow.parquet",
    "numba",
    "torch",
    "distributed",
    "matplotlib.figure",
    "matplotlib.backends.backend_agg",
    "scipy.stats",
    "pipelines.svm_grid",
    "pipelines.cross_validate",
    "pipelines.pagerank",
    "pipelines.nn_bagging",
    "pipelines.data_parallel",
    "pipelines.report",
    "pipelines.report.page",
)


def serve(requests: int, answers: int) -> list[str] | None:
    """Answer requests; a child returns its command line."""
    with os.fdopen(requests) as lines:
        for line in lines:
            argv, cwd, out, err = json.loads(line)
            pid = os.fork()
            if pid == 0:
                os.setsid()
                for number, path in ((1, out), (2, err)):
                    os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                os.close(answers)
                os.chdir(cwd)
                return list(argv)
            os.write(answers, f"{pid}\n".encode())
            _, status = os.waitpid(pid, 0)
            os.write(answers, f"{os.waitstatus_to_exitcode(status)}\n".encode())
    return None


def warm() -> None:
    """Compile and load what every run needs; no thread may be left, as children lack it."""
    import numpy as np
    from matplotlib.figure import Figure
    from sklearn.datasets import load_digits

    from pipelines import PathSVC, compute_pagerank

    X, y = load_digits(return_X_y=True)
    PathSVC(n_jobs=1).fit(X[:60], y[:60]).predict(X[:60])
    compute_pagerank(np.array([[0, 1], [1, 0]]), n_jobs=1)
    figure = Figure()
    figure.subplots().set_title("x")
    figure.savefig(os.devnull, format="svg")
    figure.savefig(os.devnull, format="png")


def main() -> None:
    sys.path.pop(0)
    for name in HEAVY:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
    warm()
    requests, answers = os.dup(0), os.dup(1)
    argv = serve(requests, answers)
    if argv is not None:
        sys.modules.pop(f"pipelines.{argv[0]}", None)  # it is to run as __main__
        sys.path.insert(0, os.getcwd())
        sys.argv = argv
        runpy.run_module(f"pipelines.{argv[0]}", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
