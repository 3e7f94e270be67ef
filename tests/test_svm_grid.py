"""The command as a person uses it: what it prints, leaves behind, refuses and survives."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss

from pipelines.data import load_dataset
from pipelines.run.journal import Journal
from pipelines.svm.kernel_machine import KernelMachine
from pipelines.svm_grid import main

SMALL = ["--limit", "400", "--n-c", "3", "--n-gamma", "3", "--folds", "3", "--cluster", "local"]
# A solver that shares nothing, so that there are many units to disturb.
LONGER = ["--limit", "700", "--n-c", "5", "--n-gamma", "4", "--cluster", "local",
          "--solver", "sklearn"]  # fmt: skip
COMMAND = [sys.executable, "-m", "pipelines.svm_grid"]


def cells(folder: Path) -> pd.DataFrame:
    """The table of a run, less what says where and how fast."""
    table = pd.read_parquet(folder / "cv_results.parquet")
    return table.drop(columns=["fit_seconds", "score_seconds", "worker"])


def record(folder: Path) -> dict:
    return json.loads((folder / "run.json").read_text())


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("runs") / "small"
    done = subprocess.run(
        [*COMMAND, *SMALL, "--results", str(folder)], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return folder, done.stdout


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "longer"
    assert main([*LONGER, "--results", str(folder), "--quiet"]) == 0
    return folder


def test_the_terminal_shows_the_answer(finished: tuple[Path, str]) -> None:
    folder, said = finished
    about = record(folder)
    assert "400 training rows, 64 features, 10 classes; 360 test rows" in said
    assert "3 C x 3 gamma x 3 folds = 27 fits" in said
    assert "dashboard  http://127.0.0.1:" in said
    assert f"best       C = {about['best']['C']:.3g}, gamma = {about['best']['gamma']:.3g}" in said
    assert f"test error {about['test_error'] * 100:.2f} %" in said
    assert "workers busy" in said
    assert f"report     {folder / 'report.html'}" in said


def test_the_folder_holds_the_run(finished: tuple[Path, str]) -> None:
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
    for name in ("heat_map", "fold_errors_best", "fold_errors", "confusion_matrix", "test_errors"):
        assert (folder / f"{name}.svg").stat().st_size > 1000
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert f"{about['test_error'] * 100:.2f}" in (folder / "report.html").read_text()


def test_the_grid_s_edge_is_named(finished: tuple[Path, str]) -> None:
    folder, said = finished
    gamma = record(folder)["best"]["gamma"]
    assert gamma == pytest.approx(1e-2), "the largest of this grid"
    assert "the largest gamma of the grid: a better one may lie beyond" in said


def test_files_have_the_permissions_of_the_umask(finished: tuple[Path, str]) -> None:
    folder, _ = finished
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert modes["model.safetensors"] == modes["run.json"]


def test_the_stored_model_gives_the_stored_test_error(finished: tuple[Path, str]) -> None:
    folder, _ = finished
    digits = load_dataset("digits", limit=400)
    predicted = KernelMachine.load(folder / "model.safetensors").predict(digits.X_test)
    n_wrong = int(np.sum(predicted != digits.classes[digits.y_test]))
    assert n_wrong == record(folder)["n_test_errors"]


def test_a_scoring_a_kernel_and_probabilities(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    grid = ["--limit", "150", "--n-c", "2", "--log-c", "-2", "1", "--n-gamma", "2", "--folds", "3"]
    how = ["--kernel", "poly", "--coef0", "1", "--class-weight", "balanced", "--workers", "1"]
    what = ["--scoring", "f1_macro", "--probability", "--cluster", "local", "--performance-report"]
    assert main([*grid, *how, *what, "--results", str(folder)]) == 0
    said = capsys.readouterr().out
    about, table = record(folder), pd.read_parquet(folder / "cv_results.parquet")
    best = about["best"]
    by_candidate = table.groupby(["C", "gamma"]).score
    assert best["score_mean"] == pytest.approx(by_candidate.mean().max())
    assert f"cv score   f1_macro {best['score_mean']:.4f} ± {best['score_std']:.4f}" in said
    assert f"test proba log loss {about['test_log_loss']:.4f}, calibration error" in said
    assert "cv f1_macro" in (folder / "report.html").read_text()

    digits = load_dataset("digits", limit=150)
    model = KernelMachine.load(folder / "model.safetensors")
    stored = pd.read_parquet(folder / "test_probabilities.parquet")
    assert list(stored)[:3] == ["row", "true", "probability_0"]
    found = model.predict_proba(digits.X_test)
    np.testing.assert_allclose(stored.iloc[:, 2:], found, atol=1e-6)
    assert about["test_log_loss"] == pytest.approx(log_loss(digits.y_test, found), abs=1e-5)
    assert 0 <= about["test_calibration_error"] <= 1
    assert model.kernel.name == "poly"
    page = (folder / "performance.html").read_text()
    assert "svm-gamma=" in page, "Dask's page names the units"
    assert not re.search(r"<script[^>]*src=", page), "it needs no network"


def test_quiet_prints_the_folder_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny = ["--limit", "100", "--n-c", "1", "--n-gamma", "1", "--folds", "2", "--workers", "1"]
    assert main([*tiny, "--cluster", "local", "--quiet", "--results", str(tmp_path / "q")]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'q'}\n"


def test_a_table_of_ones_own(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(120, 3)) * [1, 100, 0.01], columns=["a", "b", "c"])
    table["kind"] = np.where(table.a + table.b / 100 > 0, "up", "down")
    table.to_csv(tmp_path / "mine.csv", index=False)
    options = ["--dataset", str(tmp_path / "mine.csv"), "--target", "kind", "--n-c", "3"]
    folder = tmp_path / "run"
    grid = ["--n-gamma", "2", "--log-gamma", "-2", "-1", "--folds", "3", "--workers", "1"]
    assert main([*options, *grid, "--cluster", "local", "--quiet", "--results", str(folder)]) == 0
    about = record(folder)
    assert about["dataset"]["classes"] == ["down", "up"]
    assert about["dataset"]["scaling"]["kind"] == "standardise"
    assert about["test_error"] < 0.2
    model = KernelMachine.load(folder / "model.safetensors")
    assert set(model.predict(table[["a", "b", "c"]].to_numpy())) == {"up", "down"}


def test_a_dry_run_runs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "none"
    assert main(["--dry-run", "--results", str(folder), "--cluster", "local"]) == 0
    assert "320 fits" in capsys.readouterr().out
    assert not folder.exists()


def test_an_interrupt_before_the_run_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pipelines.search.svm_run.run", interrupt)
    assert main([]) == 1
    assert capsys.readouterr().err == "svm_grid: stopped on request\n"


def test_nobody_needs_to_listen(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with start(*SMALL, "--results", str(folder)) as program:
        assert program.stdout is not None
        program.stdout.close()
    assert record(folder)["status"] == "finished"


def test_help_needs_no_heavy_import() -> None:
    heavy = "{'sklearn', 'dask', 'distributed', 'pandas', 'matplotlib'}"
    program = (
        "import sys, pipelines.svm_grid as c\n"
        "try: c.main(['--help'])\n"
        f"except SystemExit: assert not {heavy} & set(sys.modules), {heavy} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


def idx_folder(tmp_path: Path, content: bytes) -> str:
    for part in ("train", "t10k"):
        for kind in ("images-idx3", "labels-idx1"):
            (tmp_path / f"{part}-{kind}-ubyte").write_bytes(content)
    return str(tmp_path)


def csv(tmp_path: Path, text: str) -> str:
    path = tmp_path / "table.csv"
    path.write_text(text)
    return str(path)


BAD = {
    "unknown data set": (lambda t: ["--dataset", "minst"], "--dataset .*mnist"),
    "missing file": (lambda t: ["--dataset", f"{t}/none.csv", "--target", "y"], "none.csv"),
    "truncated file": (
        lambda t: ["--dataset", "mnist", "--data-dir", idx_folder(t, b"\0\0\x08\x03\0\0\0\x09")],
        "ubyte",
    ),
    "no IDX file": (
        lambda t: ["--dataset", "mnist", "--data-dir", idx_folder(t, b"<html>")],
        "IDX",
    ),
    "no such column": (
        lambda t: ["--dataset", csv(t, "a,label\n1,2\n"), "--target", "lable"],
        "--target .*label",
    ),
    "NaN": (lambda t: ["--dataset", csv(t, "a,y\n1,0\n,1\n"), "--target", "y"], "a"),
    "text": (lambda t: ["--dataset", csv(t, "a,y\n1,0\nred,1\n"), "--target", "y"], "red"),
    "one class": (
        lambda t: ["--dataset", csv(t, "a,y\n1,0\n2,0\n3,0\n"), "--target", "y"],
        "at least two classes",
    ),
    "few rows": (
        lambda t: [
            "--dataset", csv(t, "a,y\n" + "1,0\n" * 20 + "2,1\n" * 4), "--target", "y"
        ],
        "--folds",
    ),
    "folds": (lambda t: ["--folds", "1"], "--folds must be at least 2, got 1"),
    "empty grid": (lambda t: ["--n-c", "0"], "--n-c must be at least 1, got 0"),
    "negative grid": (lambda t: ["--n-gamma", "-2"], "--n-gamma must be at least 1, got -2"),
    "one gamma twice": (
        lambda t: ["--log-gamma", "-2", "-2"],
        "--n-gamma must be 1 where --log-gamma is one value, got 8",
    ),
    "semicolons": (
        lambda t: ["--dataset", csv(t, "a;y\n1;0\n2;1\n"), "--target", "y"],
        "separated by ';', not by commas",
    ),
    "dry run of a wrong port": (
        lambda t: ["--dry-run", "--dashboard", "99999"],
        "--dashboard must be a port, host:port or off, got '99999'",
    ),
    "dry run into a folder in use": (
        lambda t: ["--dry-run", "--cluster", "local", "--results", str(t.parent)],
        "--results must be a new or empty folder, got .*, which holds data",
    ),
    "dry run into a file": (
        lambda t: ["--dry-run", "--cluster", "local", "--results", csv(t, "")],
        "--results must be a folder that can be written, got .*table.csv: Not a directory",
    ),
    "dry run without the GPU": (
        lambda t: ["--dry-run", "--cluster", "local", "--device", "gpu"],
        "--device gpu needs a GPU, and this machine has none",
    ),
    "workers": (lambda t: ["--workers", "0"], "--workers must be at least 1, got 0"),
    "no scheduler": (lambda t: ["--cluster", "tcp://127.0.0.1:1"], "--cluster .*tcp://127.0.0.1:1"),
    "no GPU": (
        lambda t: ["--cluster", "local", "--workers", "1", "--device", "gpu"],
        "--device gpu needs workers with a GPU",
    ),
    "unwritable results": (lambda t: ["--results", "/dev/null/run"], "--results .*/dev/null/run"),
    "unknown solver": (
        lambda t: ["--cluster", "local", "--workers", "1", "--solver", "svm"],
        "--solver must be auto or one of",
    ),
    "unknown scoring": (
        lambda t: ["--scoring", "f1_marco"], r"--scoring .* got 'f1_marco'; did you mean f1_macro\?"
    ),
    "scoring of probabilities": (
        lambda t: ["--scoring", "neg_log_loss"], "--scoring must need predictions or decision"
    ),
    "scoring of two classes": (
        lambda t: ["--scoring", "roc_auc"], "--scoring roc_auc cannot score these 10 classes"
    ),
    "no run to resume": (lambda t: ["--resume", str(t)], "--resume must be the folder of a run"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_status_2(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, words = BAD[case]
    (tmp_path / "data").mkdir()
    argv = arguments(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    assert main(argv) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("svm_grid: ")
    assert re.search(words, line), line
    assert not list(tmp_path.glob("results/*")), "a folder was left behind"


def test_a_folder_that_holds_another_run_is_refused(
    finished: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = finished
    assert main([*SMALL, "--results", str(folder)]) == 2
    assert "which holds a run; finish that one with --resume" in capsys.readouterr().err
    assert main(["--resume", str(folder), "--n-c", "4"]) == 2
    assert f"--n-c must stay 3 to resume {folder}, got 4" in capsys.readouterr().err


def start(*options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for_units(folder: Path, n_units: int, program: subprocess.Popen[str]) -> None:
    journal = folder / "journal.jsonl"
    while not journal.exists() or journal.read_bytes().count(b"\n") < n_units:
        assert program.poll() is None, program.communicate()
        time.sleep(0.02)


def workers_of(folder: Path) -> list[int]:
    return [worker["pid"] for worker in record(folder)["cluster"]["workers"]]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_run_is_resumed_and_ends_the_same(
    how: signal.Signals, tmp_path: Path, undisturbed: Path
) -> None:
    folder = tmp_path / "run"
    program = start(*LONGER, "--results", str(folder))
    wait_for_units(folder, 10, program)
    if how == signal.SIGINT:  # as a terminal does: to the whole group
        os.killpg(program.pid, how)
    else:
        program.send_signal(how)
    _, said = program.communicate()
    if how == signal.SIGKILL:
        assert program.returncode == -signal.SIGKILL
    else:
        assert program.returncode == 1
        assert said.strip().startswith("svm_grid: stopped on request; finished rows are in")
        assert len(said.splitlines()) == 1
        assert record(folder)["status"] == "stopped"
    before = (folder / "journal.jsonl").read_bytes()
    before = before[: before.rindex(b"\n") + 1]
    assert main(["--resume", str(folder), "--quiet"]) == 0
    after = (folder / "journal.jsonl").read_bytes()
    assert after.startswith(before), "a finished row was lost or computed anew"
    units = [json.loads(line)["unit"] for line in after.splitlines()]
    assert len(units) == len(set(units)) == 100
    pd.testing.assert_frame_equal(cells(folder), cells(undisturbed))
    assert record(folder)["best"] == record(undisturbed)["best"]
    assert record(folder)["test_error"] == record(undisturbed)["test_error"]


def test_wall_time_and_workers_of_all_sessions_are_counted(
    tmp_path: Path, finished: tuple[Path, str]
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(finished[0], folder)
    # As a killed launcher leaves it: begun at 100 s on the clock, after 5 s of earlier sessions.
    journal = (folder / "journal.jsonl").read_text()
    left = json.loads(journal.splitlines()[0]) | {"started": 130.0, "seconds": 10.0}
    (folder / "journal.jsonl").write_text(json.dumps(left) + "\n")
    about = record(folder)
    lost = {"address": "tcp://10.0.0.9:1", "host": "lost", "gpu": None}
    about |= {"status": "running", "wall_seconds": 5.0, "session_began": 100.0}
    about["cluster"]["workers"] = [lost]
    (folder / "run.json").write_text(json.dumps(about))
    assert main(["--resume", str(folder), "--quiet", "--workers", "1"]) == 0
    about = record(folder)
    assert about["wall_seconds"] > 45
    assert len(about["cluster"]["workers"]) == 2
    assert about["cluster"]["workers"][1] == lost
    assert about["cluster"]["n_workers"] == 1


def test_a_finished_run_has_nothing_to_resume(
    finished: tuple[Path, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, said = finished
    before = {name: (folder / name).read_bytes() for name in ("run.json", "model.safetensors")}
    monkeypatch.setattr("pipelines.run.session.open_cluster", None)  # needs no cluster
    monkeypatch.chdir(folder)  # nor the directory it was begun in
    assert main(["--resume", str(folder)]) == 0
    assert said.splitlines()[-5:-1] == capsys.readouterr().out.splitlines()[-5:-1]
    assert before == {name: (folder / name).read_bytes() for name in before}


def test_a_second_resumption_changes_nothing(
    tmp_path: Path, finished: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(finished[0], folder)
    about = record(folder) | {"status": "running", "argv": ["the first"]}
    (folder / "run.json").write_text(json.dumps(about))
    with Journal(folder / "journal.jsonl"):
        assert main(["--resume", str(folder), "--workers", "1"]) == 2
    assert "which another process has open; wait for it to end" in capsys.readouterr().err
    assert record(folder) == about


def test_asking_again_does_not_disturb_the_closing(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    program = start(*LONGER, "--results", str(folder))
    wait_for_units(folder, 3, program)
    program.send_signal(signal.SIGTERM)
    program.send_signal(signal.SIGINT)
    _, said = program.communicate()
    assert program.returncode == 1
    assert "Traceback" not in said
    assert said.splitlines()[-1].startswith("svm_grid: stopped on request; finished rows are in")
    assert record(folder)["status"] == "stopped"


def test_a_killed_worker_costs_no_row(tmp_path: Path, undisturbed: Path) -> None:
    folder = tmp_path / "run"
    program = start(*LONGER, "--workers", "2", "--results", str(folder))
    wait_for_units(folder, 5, program)
    os.kill(workers_of(folder)[0], signal.SIGKILL)
    said, complaints = program.communicate()
    assert (program.returncode, complaints) == (0, ""), said
    pd.testing.assert_frame_equal(cells(folder), cells(undisturbed))


def test_a_journal_cut_in_its_last_record_loses_that_record_alone(
    tmp_path: Path, finished: tuple[Path, str]
) -> None:
    folder = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(finished[0]), str(folder)], check=True)
    journal = folder / "journal.jsonl"
    whole = journal.read_bytes()
    journal.write_bytes(whole[:-40])
    (folder / "run.json").write_text(json.dumps(record(folder) | {"status": "running"}))
    assert main(["--resume", str(folder), "--quiet", "--workers", "1"]) == 0
    assert journal.read_bytes().count(b"\n") == whole.count(b"\n") == 3
    pd.testing.assert_frame_equal(cells(folder), cells(finished[0]))


def test_changed_data_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.csv"
    rows = [f"{i % 7},{i % 3},{i % 2}" for i in range(60)]
    path.write_text("a,b,y\n" + "\n".join(rows))
    folder = str(tmp_path / "run")
    grid = ["--n-c", "1", "--n-gamma", "1", "--folds", "2", "--workers", "1", "--cluster", "local"]
    assert main(["--dataset", str(path), "--target", "y", *grid, "--results", folder]) == 0
    path.write_text("a,b,y\n" + "\n".join(["9,9,0", *rows[1:]]))
    assert main(["--resume", folder]) == 2
    assert "the content of t.csv has changed since" in capsys.readouterr().err


def test_cells_that_do_not_converge_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    done = subprocess.run(
        [*COMMAND, *SMALL, "--solver", "sklearn", "--max-iter", "3", "--results", str(folder)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "attention  27 of 27 fits not converged: C=0.001 gamma=1e-06 fold=0;" in done.stdout
    assert set(cells(folder).status) == {"not converged"}
    assert "not converged" in (folder / "report.html").read_text()
