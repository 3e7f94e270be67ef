"""Small run folders, written the way a run leaves them."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipelines.report import write_report
from pipelines.run_folder import ranking

KEPT = Path(__file__).parents[1] / "run_folder" / "kept"
N_FOLDS, N_VALIDATION, STARTED = 4, 200, 1_763_633_600.0
WORKERS = ("tcp://127.0.0.1:40001", "tcp://127.0.0.1:40002")


def cells_of(C, gamma):
    """Cells with the least errors at C = 10, gamma = 0.01, and with a spread over the folds."""
    rows = []
    for g in gamma:
        for c in C:
            distance = abs(np.log10(c) - 1) + abs(np.log10(g) + 2)
            for fold in range(N_FOLDS):
                n_errors = round(6 + 40 * distance) + (0, 3, 1, 8)[fold]
                rows.append(
                    {
                        "C": c,
                        "gamma": g,
                        "algorithm": "svm",
                        "candidate": len(rows) // N_FOLDS,
                        "params": json.dumps({"C": c, "gamma": g}),
                        "stage": "search",
                        "split": fold,
                        "fold": fold,
                        "share": 1.0,
                        "n_train": 600,
                        "n_validation": N_VALIDATION,
                        "n_errors": n_errors,
                        "error": n_errors / N_VALIDATION,
                        "score": 1 - n_errors / N_VALIDATION,
                        "n_support": 50 + fold,
                        "n_iterations": 1000,
                        "family": "the path solver",
                        "n_fits": 1,
                        "n_steps": 0,
                        "n_steps_made": 0,
                        "implementation": "",
                        "reason": "",
                        "fit_seconds": 0.25,
                        "score_seconds": 0.05,
                        "worker": WORKERS[fold % 2],
                        "status": "ok",
                    }
                )
    return pd.DataFrame(rows)


def journal_of(cells):
    """One task for each gamma and fold; a worker runs its tasks one after another."""
    ends = dict.fromkeys(WORKERS, STARTED)
    records = []
    for (gamma, fold), rows in cells.groupby(["gamma", "fold"]):
        worker = rows["worker"].iloc[0]
        records.append(
            {
                "task": f"svm gamma={gamma:g} fold={fold}",
                "worker": worker,
                "started": ends[worker],
                "seconds": 2.0,
                "peak_memory": (1 + fold) << 29,
                "rows": json.loads(rows.to_json(orient="records")),
            }
        )
        ends[worker] += 2.5
    return records


def record_of(candidates, n_C, n_gamma):
    named = ["C", "gamma", "error_mean", "error_std", "score_mean", "score_std"]
    best = next(iter(candidates[named].dropna().to_dict("records")), None)
    return {
        "command": "svm_grid",
        "argv": ["python", "-m", "pipelines.svm_grid", "--results", "my results"],
        "status": "finished",
        "started": "2025-11-20T10:13:20+00:00",
        "finished": "2025-11-20T10:14:02+00:00",
        "wall_seconds": 125.2,
        "options": {
            "n_c": n_C,
            "n_gamma": n_gamma,
            "log_c": [-1.0, 3.0],
            "log_gamma": [-4.0, -1.0],
            "folds": N_FOLDS,
            "solver": "sklearn",
            "limit": None,
        },
        "seed": 7,
        "dataset": {
            "name": "digits",
            "n_train": 800,
            "n_test": 6,
            "n_features": 12,
            "n_classes": 3,
            "classes": ["zero", "one", "two"],
            "image_shape": [4, 3],
            "scaling": {"kind": "constants", "center": 127.5, "scale": 73.61},
            "fingerprint": "sha256:0123abcd",
        },
        "versions": {"python": "3.11.9", "dask": "2026.7.1"},
        "commit": "c723bce",
        "cluster": {
            "kind": "local",
            "n_workers": 2,
            "dashboard": "http://127.0.0.1:8787/status",
            "workers": [{"address": w, "host": "laptop", "gpu": None} for w in WORKERS],
        },
        "busy_share": 0.934,
        "n_cells": n_C * n_gamma * N_FOLDS,
        "n_failed": 0,
        "failures": [],
        "best": best,
        "test_error": 2 / 6,
        "n_test_errors": 2,
    }


def write_run(
    folder,
    C=(0.1, 1.0, 10.0, 100.0, 1000.0),
    gamma=(1e-4, 1e-3, 1e-2, 1e-1),
    change=lambda cells: cells,
):
    """Write a finished run to a new folder.

    ``C`` and ``gamma`` are the grid; ``change(cells)`` alters the cells before
    the rest is made from them.
    """
    folder.mkdir()
    cells = change(cells_of(C, gamma))
    cells["score"] = cells["score"].where(cells["error"].notna())
    candidates = ranking.ranked_candidates(cells, ["C", "gamma"], N_FOLDS)
    cells.to_parquet(folder / "cv_results.parquet")
    candidates.to_parquet(folder / "candidates.parquet")
    lines = [json.dumps(record) for record in journal_of(cells)]
    (folder / "journal.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "run.json").write_text(json.dumps(record_of(candidates, len(C), len(gamma))))
    true, predicted = np.array([0, 1, 2, 0, 1, 2]), np.array([0, 1, 2, 0, 2, 1])
    rows = np.arange(6)
    pd.DataFrame({"row": rows, "true": true, "predicted": predicted}).to_parquet(
        folder / "test_predictions.parquet"
    )
    wrong = true != predicted
    np.savez(
        folder / "test_errors.npz",
        row=rows[wrong],
        true=true[wrong],
        predicted=predicted[wrong],
        X=np.arange(24, dtype=np.uint8).reshape(2, 12),
    )
    return folder


def write_ensemble(folder, **changes):
    """Copy a kept ensemble to a new folder, with samples of each group and changes of these."""
    shutil.copytree(KEPT / "nn_bagging-finished", folder)
    with np.load(folder / "explained.npz") as file:
        explained = {name: file[name] for name in file}
    explained["group"] = np.array([*["disagreement"] * 4, "chosen", "own"])
    explained["name"] = np.array([*explained["name"][:5], "photo.png"])
    explained["true"][5] = -1
    np.savez(folder / "explained.npz", **{**explained, **changes})
    record = json.loads((folder / "run.json").read_text())
    del record["files"]["explained.npz"]  # which is another file now
    (folder / "run.json").write_text(json.dumps(record))
    return folder


@pytest.fixture
def make_run(tmp_path):
    """A function that writes a finished run to a folder of this test, as ``write_run`` does."""

    def make(*, name="run", **how):
        return write_run(tmp_path / name, **how)

    return make


@pytest.fixture(scope="session")
def grid_page(tmp_path_factory):
    """The page of a finished grid search, drawn once for the tests that only look at it."""
    return write_report(write_run(tmp_path_factory.mktemp("grid") / "run"))


@pytest.fixture(scope="session")
def ensemble_page(tmp_path_factory):
    """The page of a finished ensemble, drawn once for the tests that only look at it."""
    return write_report(write_ensemble(tmp_path_factory.mktemp("ensemble") / "run"))


@pytest.fixture
def edit_run():
    """A function that alters keys of a folder's ``run.json``; None removes a key."""

    def edit(folder, **changes):
        record = json.loads((folder / "run.json").read_text()) | changes
        kept = {key: value for key, value in record.items() if value is not None}
        (folder / "run.json").write_text(json.dumps(kept))

    return edit


@pytest.fixture
def make_unfinished(make_run, edit_run):
    """A function that writes the folder of a stopped run: a record and a journal alone."""

    def make(status="stopped", n_tasks=9):
        folder = make_run()
        for path in folder.iterdir():
            if path.name not in ("run.json", "journal.jsonl"):
                path.unlink()
        late = dict.fromkeys(
            (
                "finished",
                "busy_share",
                "n_cells",
                "n_failed",
                "failures",
                "best",
                "test_error",
                "n_test_errors",
            )
        )
        edit_run(folder, status=status, **late)
        journal = folder / "journal.jsonl"
        lines = journal.read_text().splitlines(keepends=True)
        journal.write_text("".join(lines[:n_tasks]) + lines[n_tasks][:80])
        return folder

    return make
