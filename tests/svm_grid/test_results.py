"""What the command prints and leaves behind."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss

from pipelines.data.load import load_dataset
from pipelines.svm.kernel_machine import KernelMachine
from pipelines.svm_grid import main
from tests.command_runs import SMALL, cells, record


def test_the_terminal_shows_the_answer(finished):
    folder, output = finished
    about = record(folder)
    assert "400 training rows, 64 features, 10 classes; 360 test rows" in output
    assert "3 C x 3 gamma x 3 folds = 27 fits" in output
    assert "dashboard  http://127.0.0.1:" in output
    assert (
        f"best       C = {about['best']['C']:.3g}, gamma = {about['best']['gamma']:.3g}" in output
    )
    assert f"test error {about['test_error'] * 100:.2f} %" in output
    assert "workers busy" in output
    assert (
        "           the largest gamma of the grid; the optimum may lie outside it. To wid" in output
    )
    alone = "1 other candidate is within one standard error of the best (1 tied with it)"
    assert f"           {alone}\ncv error   " in output  # which is no simpler
    (shown,) = re.findall(r"progress   100 %.*best so far (\S+) % error on 3 folds", output)
    assert f"cv error   {shown} %" in output
    assert f"report     {folder / 'report.html'}" in output


def test_the_folder_holds_the_run(finished):
    folder, _ = finished
    about = record(folder)
    table = pd.read_parquet(folder / "cv_results.parquet")
    assert len(table) == 27
    assert about["status"] == "finished"
    assert about["options"]["limit"] == 400
    assert about["solver"] == "path"
    assert about["dataset"]["scaling"]["kind"] == "constants"
    assert about["versions"]["dask"] == "2026.7.1"
    assert 0 < about["busy_share"] <= 1
    by_candidate = table.groupby(["C", "gamma"]).error.mean()
    assert about["best"]["error_mean"] == pytest.approx(by_candidate.min())
    np.testing.assert_allclose(table.score, 1 - table.error)
    assert about["best"]["score_mean"] == pytest.approx(1 - by_candidate.min())
    for name in ("heat_map", "fold_errors_best", "confusion_matrix"):
        assert (folder / f"{name}.svg").stat().st_size > 1000
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert f"{about['test_error'] * 100:.2f}" in (folder / "report.html").read_text()


def test_files_have_the_permissions_of_the_umask(finished):
    folder, _ = finished
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert modes["model.safetensors"] == modes["run.json"]


def test_the_stored_model_gives_the_stored_test_error(finished):
    folder, _ = finished
    digits = load_dataset("digits", limit=400)
    predicted = KernelMachine.load(folder / "model.safetensors").predict(digits.X_test)
    n_wrong = int(np.sum(predicted != digits.classes[digits.y_test]))
    assert n_wrong == record(folder)["n_test_errors"]


def test_a_scoring_a_kernel_and_probabilities(tmp_path, capsys):
    folder = tmp_path / "run"
    grid = ["--limit", "150", "--n-c", "2", "--log-c", "-2", "1", "--n-gamma", "2", "--folds", "3"]
    how = ["--kernel", "poly", "--coef0", "1", "--class-weight", "balanced", "--workers", "1"]
    what = ["--scoring", "f1_macro", "--probability", "--cluster", "local", "--performance-report"]
    assert main([*grid, *how, *what, "--results", str(folder)]) == 0
    output = capsys.readouterr().out
    about, table = record(folder), pd.read_parquet(folder / "cv_results.parquet")
    best = about["best"]
    by_candidate = table.groupby(["C", "gamma"]).score
    assert best["score_mean"] == pytest.approx(by_candidate.mean().max())
    assert f"cv score   f1_macro {best['score_mean']:.4f} ± {best['score_std']:.4f}" in output
    assert f"test proba log loss {about['test_log_loss']:.4f}, calibration error" in output
    assert "cv f1_macro" in (folder / "report.html").read_text()

    digits = load_dataset("digits", limit=150)
    model = KernelMachine.load(folder / "model.safetensors")
    stored = pd.read_parquet(folder / "test_probabilities.parquet")
    assert list(stored)[:3] == ["row", "true", "probability_0"]
    probabilities = model.predict_proba(digits.X_test)
    np.testing.assert_allclose(stored.iloc[:, 2:], probabilities, atol=1e-6)
    assert about["test_log_loss"] == pytest.approx(log_loss(digits.y_test, probabilities), abs=1e-5)
    assert 0 <= about["test_calibration_error"] <= 1
    assert model.kernel.name == "poly"
    page = (folder / "performance.html").read_text()
    assert "svm-gamma=" in page, "Dask's page names the tasks"
    assert not re.search(r"<script[^>]*src=", page), "it needs no network"


@pytest.mark.slow
def test_quiet_prints_the_folder_alone(tmp_path, capsys):
    tiny = ["--limit", "100", "--n-c", "1", "--n-gamma", "1", "--folds", "2"]
    assert main([*tiny, "--cluster", "threads", "--quiet", "--results", str(tmp_path / "q")]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'q'}\n"


@pytest.mark.slow
def test_cells_that_do_not_converge_are_named(tmp_path, capsys):
    folder = tmp_path / "run"
    few = ["--solver", "sklearn", "--max-iter", "3", "--cluster", "threads"]
    assert main([*SMALL["svm_grid"], *few, "--results", str(folder)]) == 0
    output = capsys.readouterr().out
    assert "warning    27 of 27 fits not converged: C=0.001 gamma=1e-06 fold=0;" in output
    assert set(cells(folder).status) == {"not converged"}
    assert "not converged" in (folder / "report.html").read_text()
