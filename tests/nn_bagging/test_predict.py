"""A stored ensemble is asked about images."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from pipelines import BaggedNets, InputError, Run
from pipelines.data.load import load_dataset
from pipelines.nn_bagging import main
from tests.command_runs import record

from .conftest import image


@pytest.fixture(autouse=True)
def current_folder(tmp_path, monkeypatch):
    folder = tmp_path / "current"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_a_stored_ensemble_answers(tmp_path, current_folder, undisturbed, capsys):
    first, second = image(tmp_path / "zero.png", 0), image(tmp_path / "six.png", 6)
    assert main(["predict", str(undisturbed), "--image", str(first), str(second)]) == 0
    output = capsys.readouterr().out
    answers = output.split("image ")[1:]
    assert "class      0\n" in answers[0]
    assert "class      6\n" in answers[1]
    assert "of 4 members" in answers[0]
    table = pd.read_csv(current_folder / "image-predictions.csv")
    assert table["image"].tolist() == [str(first), str(second)]
    assert table["predicted"].tolist() == [0, 6]
    assert table["certainty"].between(0.1, 1).all()
    for name in ("zero", "six"):
        assert (current_folder / f"{name}-certainty.svg").stat().st_size > 1000
        assert (current_folder / f"{name}-certainty.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["current", "six.png", "zero.png"]


def test_pictures_that_cannot_be_read_keep_no_other_from_its_answer(tmp_path, undisturbed, capsys):
    picture, blank = image(tmp_path / "zero.png", 0), tmp_path / "blank.png"
    Image.new("L", (64, 64), 200).save(blank)
    words = [
        "predict",
        str(undisturbed),
        "--image",
        str(blank),
        str(picture),
        str(tmp_path / "none"),
    ]
    assert main(words) == 1
    output = capsys.readouterr()
    assert f"image      {picture}\nclass      0\n" in output.out
    assert output.out.count("image ") == 1
    of_blank, of_none = output.err.splitlines()
    assert f"but {blank} has nearly one colour" in of_blank
    assert "No such file" in of_none
    assert main(["predict", str(undisturbed), "--image", str(blank), str(blank)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_what_divides_the_members_is_referred_to_a_person(tmp_path, undisturbed, capsys):
    noise = np.random.default_rng(0).integers(0, 255, (64, 64)).astype(np.uint8)
    Image.fromarray(noise).save(tmp_path / "noise.png")
    ask = ["predict", str(undisturbed), "--image", str(tmp_path / "noise.png")]
    assert main([*ask, "--output", str(tmp_path / "figures")]) == 0
    output = capsys.readouterr().out
    assert "warning    defer to a human: fewer than three in four members" in output
    assert (tmp_path / "figures" / "noise-certainty.svg").exists()


def test_predict_refuses_in_one_line(tmp_path, undisturbed, capsys):
    picture = str(image(tmp_path / "zero.png", 0))
    (tmp_path / "text.png").write_text("hello")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "run.json").write_text(
        json.dumps(record(undisturbed) | {"status": "running", "files": {}})
    )
    broken = tmp_path / "broken"
    shutil.copytree(undisturbed, broken)
    (broken / "members" / "member-01.safetensors").write_bytes(b"garbage")
    undigested = tmp_path / "undigested"  # as an earlier version left it
    shutil.copytree(broken, undigested)
    (undigested / "run.json").write_text(json.dumps(record(undisturbed) | {"files": {}}))
    for argv, says in (
        ([str(undisturbed)], "--image"),
        ([str(undisturbed), "--image", str(tmp_path / "text.png")], "not a readable image"),
        ([str(undisturbed), "--image", str(tmp_path / "none.png")], "No such file"),
        ([str(tmp_path / "none"), "--image", picture], "RUN must be a run folder"),
        ([str(tmp_path / "empty"), "--image", picture], "RUN must hold a trained member"),
        ([str(broken), "--image", picture], "member-01.safetensors of a run must hold what"),
        ([str(undigested), "--image", picture], "member-01.safetensors must be"),
        ([str(undisturbed), "--image", picture, "--output", picture], "--output must be a folder"),
        (
            [str(undisturbed), "--image", picture, "--copies", "4"],
            "--copies must go with a run that",
        ),
    ):
        assert main(["predict", *argv]) == 2
        message = capsys.readouterr().err
        assert says in message, message
        assert len(message.splitlines()) == 1


@pytest.mark.slow
def test_what_is_deferred_has_a_guarantee_and_novel_samples_are_named(tmp_path, guaranteed, capsys):
    folder, output = guaranteed
    metadata = record(folder)
    proved = metadata["risk_control"]
    assert proved["error"] == 0.2
    assert proved["n_kept"] <= proved["n_out_of_bag"] <= metadata["dataset"]["n_train"]
    assert f"guarantee  {proved['line']}" in output
    predictions = pd.read_parquet(folder / "test_predictions.parquet")
    assert predictions.kept.sum() == proved["n_kept_test"]
    assert (predictions.kept == (predictions.certainty >= proved["threshold"])).all()
    assert predictions.novelty_p_value.between(0, 1).all()
    assert metadata["prediction_sets"]["coverage"] > 0.85
    page = (folder / "report.html").read_text()
    assert proved["assumption"] in page
    assert "unlike all training samples" in page

    picture = image(tmp_path / "zero.png", 0)
    bars = np.where(np.arange(120) // 15 % 2, 255, 0)[None].repeat(120, 0).astype(np.uint8)
    Image.fromarray(np.pad(bars, 8, constant_values=255)).save(tmp_path / "bars.png")
    words = ["--image", str(picture), str(tmp_path / "bars.png")]
    assert main(["predict", str(folder), *words]) == 0
    of_zero, of_bars = capsys.readouterr().out.split("image ")[1:]
    assert "set        0" in of_zero
    assert "guarantee  certainty" in of_zero
    assert "novel sample" not in of_zero
    assert "warning    novel sample (p = 0.00" in of_bars


@pytest.mark.slow
def test_an_ensemble_without_its_guarantees_is_asked(tmp_path, guaranteed, capsys):
    folder, picture = tmp_path / "old", image(tmp_path / "zero.png", 0)
    shutil.copytree(guaranteed[0], folder)
    (folder / "selective_prediction.safetensors").unlink()
    of_before = {name: value for name, value in record(folder).items() if name != "files"}
    (folder / "run.json").write_text(json.dumps(of_before))
    assert main(["predict", str(folder), "--image", str(picture)]) == 0
    output = capsys.readouterr().out
    assert "class      0" in output
    assert "set  " not in output
    (folder / "selective_prediction.safetensors").write_bytes(b"garbage")
    assert main(["predict", str(folder), "--image", str(picture)]) == 2
    assert (
        "selective_prediction.safetensors must be what nn_bagging stored" in capsys.readouterr().err
    )


def test_a_run_from_python_has_its_ensemble(finished):
    run = Run(finished[0])
    stored = pd.read_parquet(run / "test_predictions.parquet")
    data = load_dataset("digits", seed=0, n_folds=2, test_size=0.2)
    assert (run.model.predict(data.X_test) == stored["predicted"]).all()
    assert run.test_error == pytest.approx((stored["true"] != stored["predicted"]).mean())
    with pytest.raises(InputError):
        BaggedNets.of_run(run.path / "members")


def test_changed_pictures_are_refused(tmp_path, finished, capsys):
    folder = tmp_path / "copy"
    shutil.copytree(finished[0], folder)
    picture = image(tmp_path / "mine.png", 0)
    about = record(folder) | {"status": "running"}
    about["options"]["image"] = [str(picture)]
    (folder / "run.json").write_text(json.dumps(about))
    image(picture, 5)
    assert main(["--resume", str(folder)]) == 2
    assert "needs the images of --image unchanged, but one has changed" in capsys.readouterr().err
