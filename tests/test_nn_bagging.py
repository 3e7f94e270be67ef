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
from PIL import Image
from sklearn.datasets import load_digits

from pipelines.bagging.predict import ask_members
from pipelines.data import load_dataset
from pipelines.nn.member import Ensemble
from pipelines.nn_bagging import main

SMALL = ["--limit", "300", "--n-bootstrap", "3", "--n-tuning", "2", "--folds", "3",
         "--max-epochs", "4", "--cluster", "local"]  # fmt: skip
# Many units, to disturb a run in their midst.
LONGER = ["--limit", "700", "--n-bootstrap", "4", "--n-tuning", "3", "--folds", "3",
          "--batch-size", "4", "--cluster", "local"]  # fmt: skip
COMMAND = [sys.executable, "-m", "pipelines.nn_bagging"]


def cells(folder: Path) -> pd.DataFrame:
    """The table of a run, less what says where and how fast."""
    table = pd.read_parquet(folder / "cv_results.parquet")
    return table.drop(columns=["fit_seconds", "score_seconds", "worker"])


def said_by_members(folder: Path) -> np.ndarray:
    with np.load(folder / "member_probabilities.npz", allow_pickle=False) as arrays:
        return arrays["probabilities"]


def record(folder: Path) -> dict:
    return json.loads((folder / "run.json").read_text())


def picture(path: Path, row: int) -> Path:
    """A digit as a person scans it: dark, on light paper, large."""
    ink = np.kron(load_digits().images[row] / 16, np.ones((30, 30)))
    paper = np.pad(240 - 200 * ink, 60, constant_values=240)
    Image.fromarray(paper.astype(np.uint8)).save(path)
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("runs")
    own = picture(folder / "mine.png", 0)
    asked = ["--explain", "7,18", "--image", str(own), "--workers", "2"]
    done = subprocess.run(
        [*COMMAND, *SMALL, *asked, "--results", str(folder / "small")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    return folder / "small", done.stdout


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "longer"
    assert main([*LONGER, "--results", str(folder), "--quiet", "--workers", "1"]) == 0
    return folder


def test_the_terminal_shows_the_answer(finished: tuple[Path, str]) -> None:
    folder, said = finished
    about = record(folder)
    assert "300 training rows, images of 8 x 8 pixels, 10 classes; 360 test rows" in said
    assert "3 members x 2 candidates x 3 folds = 18 fits in 6 units, and 3 refits" in said
    assert "dashboard  http://127.0.0.1:" in said
    n_wrong = about["n_vote_errors"]
    assert f"vote       test error {n_wrong / 360 * 100:.2f} % ({n_wrong} of 360)" in said
    assert "test points go to a person" in said
    assert f"report     {folder / 'report.html'}" in said


def test_the_folder_holds_the_run(finished: tuple[Path, str]) -> None:
    folder, _ = finished
    about, table = record(folder), cells(folder)
    assert len(table) == 18
    assert about["status"] == "finished"
    assert about["space"]["network"] == "conv"
    assert 0 < about["busy_share"] <= 1
    members = pd.read_csv(folder / "members.csv", float_precision="round_trip")
    for row in members.to_dict("records"):
        losses = table[table.member == row["member"]].groupby("candidate").loss.mean()
        assert row["cv_loss"] == pytest.approx(losses.min())
    assert [one["test_error"] for one in about["members"]] == members.test_error.tolist()
    p = said_by_members(folder)
    assert p.dtype == np.float32
    assert p.shape == (3, 360, 10)
    truth = load_dataset("digits", limit=300).y_test
    np.testing.assert_allclose(members.test_error, (p.argmax(axis=2) != truth).mean(axis=1))
    assert about["members_mean_test_error"] == pytest.approx(members.test_error.mean())
    predictions = pd.read_parquet(folder / "test_predictions.parquet")
    np.testing.assert_array_equal(predictions.true, truth)
    assert about["vote_test_error"] == np.mean(predictions.predicted != truth)
    assert about["mean_test_error"] == np.mean(p.mean(axis=0).argmax(axis=1) != truth)
    votes = (p.argmax(axis=2) == predictions.predicted.to_numpy()).mean(axis=0)
    np.testing.assert_allclose(predictions.disagreement, 1 - votes)
    for name in ("certainty_disagreement", "certainty_chosen", "certainty_own", "ensemble_size",
                 "calibration", "referral", "member_searches", "confusion_matrix"):  # fmt: skip
        assert (folder / f"{name}.svg").stat().st_size > 1000
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    page = (folder / "report.html").read_text()
    assert f"{about['vote_test_error'] * 100:.2f}" in page
    assert "mine.png: vote" in page


def test_what_is_explained_is_what_the_members_said(finished: tuple[Path, str]) -> None:
    folder, _ = finished
    with np.load(folder / "explained.npz", allow_pickle=False) as arrays:
        names, probabilities = arrays["name"].tolist(), arrays["probabilities"]
        true, groups, X = arrays["true"], arrays["group"].tolist(), arrays["X"]
    assert names[6:] == ["test point 7", "test point 18", "mine.png"]
    assert groups == ["disagreement"] * 6 + ["chosen"] * 2 + ["own"]
    np.testing.assert_array_equal(probabilities[:, 6], said_by_members(folder)[:, 7])
    assert true[-1] == -1
    found, classes = ask_members(folder, X[-1:])
    np.testing.assert_allclose(probabilities[:, -1], found[:, 0], atol=1e-6)
    assert classes == list("0123456789")


def test_the_stored_members_give_the_stored_answers(finished: tuple[Path, str]) -> None:
    folder, _ = finished
    said, _ = ask_members(folder, load_dataset("digits", limit=300).X_test)
    np.testing.assert_allclose(said, said_by_members(folder), atol=1e-6)


@pytest.mark.parametrize("n_workers", ["2", "4"])
def test_members_do_not_depend_on_the_number_of_workers(
    n_workers: str, tmp_path: Path, undisturbed: Path
) -> None:
    folder = tmp_path / "run"
    assert main([*LONGER, "--results", str(folder), "--quiet", "--workers", n_workers]) == 0
    pd.testing.assert_frame_equal(cells(folder), cells(undisturbed))
    np.testing.assert_array_equal(said_by_members(folder), said_by_members(undisturbed))
    for name in ("members.csv", "ensemble_sizes.parquet"):
        assert (folder / name).read_bytes() == (undisturbed / name).read_bytes()
    stored, expected = (
        Ensemble.load(run / "members" / "member-03.safetensors").members[0]
        for run in (folder, undisturbed)
    )
    assert stored.candidate == expected.candidate
    for name, weights in expected.weights.items():
        np.testing.assert_array_equal(stored.weights[name], weights)


def test_the_vote_beats_the_mean_member(undisturbed: Path) -> None:
    about = record(undisturbed)
    assert about["vote_test_error"] < about["members_mean_test_error"]


def start(*options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def wait_for_units(folder: Path, n_units: int, program: subprocess.Popen[str]) -> None:
    journal = folder / "journal.jsonl"
    while not journal.exists() or journal.read_bytes().count(b"\n") < n_units:
        assert program.poll() is None, program.communicate()
        time.sleep(0.02)


def assert_equal_runs(folder: Path, expected: Path) -> None:
    pd.testing.assert_frame_equal(cells(folder), cells(expected))
    np.testing.assert_array_equal(said_by_members(folder), said_by_members(expected))
    for fact in ("vote_test_error", "mean_test_error", "members", "referral"):
        assert record(folder)[fact] == record(expected)[fact]


@pytest.mark.parametrize(("how", "n_units"), [(signal.SIGTERM, 2), (signal.SIGKILL, 13)])
def test_a_stopped_run_is_resumed_and_ends_the_same(
    how: signal.Signals, n_units: int, tmp_path: Path, undisturbed: Path
) -> None:
    folder = tmp_path / "run"
    program = start(*LONGER, "--results", str(folder))
    wait_for_units(folder, n_units, program)
    program.send_signal(how)
    _, said = program.communicate()
    if how != signal.SIGKILL:
        assert program.returncode == 1
        assert said.startswith("nn_bagging: stopped on request; finished rows are in")
        assert len(said.splitlines()) == 1
    before = (folder / "journal.jsonl").read_bytes()
    before = before[: before.rindex(b"\n") + 1]
    assert main(["--resume", str(folder), "--quiet"]) == 0
    after = (folder / "journal.jsonl").read_bytes()
    assert after.startswith(before), "a finished row was lost or computed anew"
    units = [json.loads(line)["unit"] for line in after.splitlines()]
    assert len(units) == len(set(units)) == 4 * 3 + 4
    assert_equal_runs(folder, undisturbed)


def test_a_killed_worker_changes_nothing(tmp_path: Path, undisturbed: Path) -> None:
    folder = tmp_path / "run"
    program = start(*LONGER, "--workers", "2", "--results", str(folder))
    wait_for_units(folder, 3, program)
    os.kill(record(folder)["cluster"]["workers"][0]["pid"], signal.SIGKILL)
    said, complaints = program.communicate()
    assert (program.returncode, complaints) == (0, ""), said
    assert_equal_runs(folder, undisturbed)


def test_a_member_whose_file_is_gone_is_made_again(tmp_path: Path, undisturbed: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(undisturbed, folder)
    (folder / "members" / "member-02.safetensors").unlink()
    (folder / "run.json").write_text(json.dumps(record(folder) | {"status": "running"}))
    assert main(["--resume", str(folder), "--quiet", "--workers", "1"]) == 0
    lines = (folder / "journal.jsonl").read_text().splitlines()
    assert len(lines) == 17
    assert json.loads(lines[-1])["unit"] == "refit-member=2"
    assert_equal_runs(folder, undisturbed)


def test_a_finished_run_has_nothing_to_resume_but_may_explain_more(
    tmp_path: Path, finished: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(finished[0], folder)
    monkeypatch.setattr("pipelines.run.session.open_cluster", None)  # needs no cluster
    assert main(["--resume", str(folder), "--quiet", "--explain", "11"]) == 0
    with np.load(folder / "explained.npz", allow_pickle=False) as arrays:
        assert arrays["name"].tolist()[6:] == ["test point 11", "mine.png"]
    assert_equal_runs(folder, finished[0])
    assert record(folder)["wall_seconds"] == record(finished[0])["wall_seconds"]


def test_too_little_memory_is_said_and_more_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "run")
    tiny = ["--limit", "100", "--n-bootstrap", "2", "--n-tuning", "1", "--folds", "2",
            "--max-epochs", "2", "--cluster", "local", "--workers", "1"]  # fmt: skip
    assert main([*tiny, "--memory", "0.0001", "--results", folder]) == 1
    said = capsys.readouterr().err
    assert said.startswith("nn_bagging: no member could be trained: ")
    assert len(said.splitlines()) == 1
    assert record(Path(folder))["status"] == "stopped"
    assert main(["--resume", folder, "--quiet", "--memory", "4"]) == 0
    assert set(cells(Path(folder)).status) == {"ok"}


def test_a_table_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(200, 3)) * [1, 100, 0.01], columns=["a", "b", "c"])
    table["kind"] = np.where(table.a + table.b / 100 > 0, "up", "down")
    table.to_csv(tmp_path / "mine.csv", index=False)
    folder = tmp_path / "run"
    options = ["--dataset", str(tmp_path / "mine.csv"), "--target", "kind", "--explain", "3"]
    small = ["--n-bootstrap", "2", "--n-tuning", "2", "--folds", "3", "--workers", "1"]
    assert main([*options, *small, "--cluster", "local", "--results", str(folder)]) == 0
    about = record(folder)
    assert about["space"]["network"] == "mlp"
    assert about["vote_test_error"] < 0.2
    assert "n_conv_layer" not in pd.read_csv(folder / "members.csv")
    said, classes = ask_members(folder, table[["a", "b", "c"]].to_numpy())
    assert classes == ["down", "up"]
    right = np.array(classes)[said.mean(axis=0).argmax(axis=1)] == table.kind
    assert right.mean() > 0.85
    assert "test point 3" in (folder / "report.html").read_text()
    assert main(["predict", str(folder), "--image", "x.png"]) == 2
    assert "data are a table" in capsys.readouterr().err


def test_a_dry_run_runs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "none"
    assert main(["--dry-run", "--results", str(folder), "--cluster", "local"]) == 0
    assert "12 members x 12 candidates x 5 folds = 720 fits" in capsys.readouterr().out
    assert not folder.exists()


def test_without_torch_one_line_names_the_extra(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.bagging.bagging_run.find_spec", lambda name: None)
    for argv in (["--results", str(tmp_path / "r")], ["predict", str(tmp_path), "--image", "x"]):
        assert main(argv) == 2
        said = capsys.readouterr().err
        assert "needs torch" in said
        assert "'.[nn]'" in said
        assert len(said.splitlines()) == 1
    assert not (tmp_path / "r").exists()


def test_help_needs_no_heavy_import() -> None:
    heavy = "{'sklearn', 'dask', 'distributed', 'pandas', 'matplotlib', 'torch', 'PIL'}"
    for words in (["--help"], ["predict", "--help"]):
        program = (
            "import sys, pipelines.nn_bagging as c\n"
            f"try: c.main({words!r})\n"
            f"except SystemExit: heavy = {heavy} & set(sys.modules)\n"
            "assert not heavy, heavy\n"
        )
        subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


BAD = {
    "rows": (["--explain", "7,x"], "--explain must be rows such as 7,18, got 7,x"),
    "row": (["--explain", "360"], "--explain must be rows of the test set, 0 to 359, got 360"),
    "picture": (["--image", "none.png"], "--image .*none.png: No such file"),
    "space": (["--space", "smal"], "--space .*did you mean 'small'"),
    "precision": (["--precision", "bf16"], "--precision"),
    "folds": (["--folds", "1"], "--folds must be at least 2, got 1"),
    "batch": (["--batch-size", "0"], "--batch-size must be at least 1"),
    "memory": (["--memory", "0"], "--memory must be above 0"),
    "unknown": (["--n-bootstraps", "3"], "did you mean --n-bootstrap"),
    "few rows": (["--limit", "12", "--folds", "40"], "--folds"),
}


@pytest.mark.parametrize(("argv", "says"), BAD.values(), ids=BAD)
def test_bad_input_is_one_line(
    argv: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert main([*argv, "--results", str(folder), "--cluster", "local"]) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert re.search(says, said), said
    assert not folder.exists()


def test_changed_pictures_are_refused(
    tmp_path: Path, finished: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(finished[0], folder)
    own = picture(tmp_path / "mine.png", 0)
    about = record(folder) | {"status": "running"}
    about["options"]["image"] = [str(own)]
    (folder / "run.json").write_text(json.dumps(about))
    picture(own, 5)
    assert main(["--resume", str(folder)]) == 2
    assert "needs the pictures of --image as they were" in capsys.readouterr().err


def test_a_stored_ensemble_answers(
    tmp_path: Path, undisturbed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = picture(tmp_path / "zero.png", 0), picture(tmp_path / "six.png", 6)
    assert main(["predict", str(undisturbed), "--image", str(first), str(second)]) == 0
    said = capsys.readouterr().out
    answers = said.split("image ")[1:]
    assert "class      0\n" in answers[0]
    assert "class      6\n" in answers[1]
    assert "of 4 members" in answers[0]
    for name in ("zero", "six"):
        assert (tmp_path / f"{name}-certainty.svg").stat().st_size > 1000
        assert (tmp_path / f"{name}-certainty.png").read_bytes().startswith(b"\x89PNG")


def test_pictures_that_cannot_be_read_keep_no_other_from_its_answer(
    tmp_path: Path, undisturbed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own, blank = picture(tmp_path / "zero.png", 0), tmp_path / "blank.png"
    Image.new("L", (64, 64), 200).save(blank)
    asked = ["predict", str(undisturbed), "--image", str(blank), str(own), str(tmp_path / "none")]
    assert main(asked) == 1
    said = capsys.readouterr()
    assert f"image      {own}\nclass      0\n" in said.out
    assert said.out.count("image ") == 1
    of_blank, of_none = said.err.splitlines()
    assert f"got {blank}, which is nearly of one colour" in of_blank
    assert "No such file" in of_none
    assert main(["predict", str(undisturbed), "--image", str(blank), str(blank)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_what_divides_the_members_is_referred_to_a_person(
    tmp_path: Path, undisturbed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (64, 64)).astype(np.uint8)
    Image.fromarray(noise).save(tmp_path / "noise.png")
    ask = ["predict", str(undisturbed), "--image", str(tmp_path / "noise.png")]
    assert main([*ask, "--output", str(tmp_path / "figures")]) == 0
    said = capsys.readouterr().out
    assert "attention  refer to a person: fewer than three in four members" in said
    assert (tmp_path / "figures" / "noise-certainty.svg").exists()


def test_predict_refuses_in_one_line(
    tmp_path: Path, undisturbed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = str(picture(tmp_path / "zero.png", 0))
    (tmp_path / "text.png").write_text("hello")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "run.json").write_text(json.dumps(
        record(undisturbed) | {"status": "running"}))  # fmt: skip
    broken = tmp_path / "broken"
    shutil.copytree(undisturbed, broken)
    (broken / "members" / "member-01.safetensors").write_bytes(b"garbage")
    for argv, says in (
        ([str(undisturbed)], "--image"),
        ([str(undisturbed), "--image", str(tmp_path / "text.png")], "no picture"),
        ([str(undisturbed), "--image", str(tmp_path / "none.png")], "No such file"),
        ([str(tmp_path / "none"), "--image", own], "RUN must be a run folder"),
        ([str(tmp_path / "empty"), "--image", own], "none is finished yet"),
        ([str(broken), "--image", own], "member-01.safetensors must be"),
        ([str(undisturbed), "--image", own, "--output", own], "--output must be a folder"),
    ):
        assert main(["predict", *argv]) == 2
        said = capsys.readouterr().err
        assert says in said, said
        assert len(said.splitlines()) == 1
