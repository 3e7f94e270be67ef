"""Iterations and CPU seconds from one C to the next: ours, an earlier version's, ``SVC``'s."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.tables.measure import Fold, measure_cell, warm_up
from benchmarks.tables.tables import make_table

TABLE, GAMMA = "phoneme", 0.1
CS = np.logspace(-2, 6, 17)

# What a checkout of any version can run: it reads arrays, and prints what each C took.
_SCRIPT = """
import json, sys, time
import numpy as np
try:
    from pipelines.svm.cpu.path import cross_validate_path
except ImportError:  # as the module was called earlier
    from pipelines.svm.path.path import cross_validate_path
given = np.load(sys.argv[1])
fold = [(given["train"], given["validation"])]
def walk(X, y, Cs):
    return cross_validate_path(X, y, [float(given["gamma"])], Cs.tolist(), fold, n_threads=1)
walk(given["X"], given["y"], given["Cs"][:12])  # compiles
def timed(Cs):
    began = time.process_time()
    found = walk(given["X"], given["y"], Cs)
    return found, time.process_time() - began
found, whole = timed(given["Cs"])
solving = np.cumsum(found.fit_seconds[0, :, 0])  # wall time
seconds = whole * solving / solving[-1]
if sys.argv[2] == "anew":
    for c in range(len(seconds)):
        seconds[c] = min(timed(given["Cs"][: c + 1])[1] for _ in range(3))
print(json.dumps({
    "iterations": found.n_iterations[0, :, 0].tolist(),
    "seconds": seconds.tolist(),
    "converged": (found.status[0, :, 0] == 0).tolist(),
}))
"""


def measure_along_c(before: Path | None, cap: int, folder: Path) -> dict[str, Any]:
    """One gamma of one table, and its first fold; seconds up to a C, with all smaller ones.

    Ours walks anew to every C, the fastest of three times. Of an earlier version, whose
    iterations are all of one kind, the seconds of one walk are divided by them.

    before : a checkout of an earlier version
    cap : CPU seconds after which a cell of ``SVC`` is ended
    folder : for what the versions are given
    """
    from sklearn.model_selection import StratifiedKFold

    X, y = make_table(TABLE, None)
    fold = next(iter(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y)))
    given = folder / "given.npz"
    np.savez(given, X=X, y=y, train=fold[0], validation=fold[1], gamma=GAMMA, Cs=CS)
    versions = {"now": Path.cwd()} | ({} if before is None else {"before": before})
    return {
        "table": TABLE,
        "gamma": GAMMA,
        "C": CS.tolist(),
        **{name: _run_version(name, checkout, given) for name, checkout in versions.items()},
        "SVC": _peer(X, y, fold, cap),
    }


def _run_version(name: str, checkout: Path, given: Path) -> dict[str, Any]:
    ran = subprocess.run(
        [sys.executable, "-c", _SCRIPT, str(given.resolve()), "anew" if name == "now" else ""],
        cwd=checkout,
        env=os.environ | {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"},
        check=True,
        capture_output=True,
        text=True,
    )
    answer: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return answer


def _peer(X: np.ndarray, y: np.ndarray, fold: Fold, cap: int) -> dict[str, Any]:
    warm_up([TABLE])
    cells = [measure_cell("sklearn.svm", X, y, fold, C, GAMMA, cap) for C in CS]
    return {
        "iterations": [cell["iterations"] for cell in cells],
        "seconds": np.cumsum([cell["seconds"] for cell in cells]).tolist(),
        "converged": [cell["errors"] is not None for cell in cells],
    }


def draw(record: dict[str, Any], path: Path) -> None:
    """Both against C on logarithmic axes; hollow where a solve was ended or gave up."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    lines = {"SVC": "SVC one by one", "before": "path, SMO alone", "now": "path, SMO and Newton"}
    figure, panels = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    for axes, key in zip(panels, ("iterations", "seconds"), strict=True):
        for name, label in lines.items():
            if name not in record:
                continue
            values = np.array(record[name][key], dtype=float)
            (line,) = axes.loglog(record["C"], values, label=label)
            for kept, fill in ((True, line.get_color()), (False, "none")):
                chosen = np.array(record[name]["converged"]) == kept
                axes.plot(
                    np.array(record["C"])[chosen], values[chosen], "o", ms=4,
                    color=line.get_color(), mfc=fill,
                )  # fmt: skip
        axes.set(xlabel="C", ylabel=key if key == "iterations" else "CPU seconds up to C")
        axes.grid(alpha=0.3)
    panels[0].legend(frameon=False)
    figure.suptitle(f"{record['table']}, gamma = {record['gamma']}, one fold")
    figure.savefig(path, dpi=130)
    plt.close(figure)
