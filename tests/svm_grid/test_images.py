"""Images in files and folders, and features of them, from the options to the answer."""

from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from pipelines.data.image_files import ImageFormat, read_image
from pipelines.svm_grid import main
from tests.command_runs import record

SMALL = ["--n-c", "2", "--n-gamma", "2", "--folds", "2", "--cluster", "threads", "--quiet"]


@pytest.fixture(scope="session")
def photographs(tmp_path_factory):
    """Thirty noisy images: red above, with lines across; or red below, with upright lines."""
    folder, rng = tmp_path_factory.mktemp("photographs"), np.random.default_rng(0)
    for i in range(30):
        pixels = rng.integers(0, 100, (20, 28, 3)).astype(np.uint8)
        pixels[slice(10) if i % 2 else slice(10, 20), :, 0] = 250
        lines = (slice(None, None, 5),) if i % 2 else (slice(None), slice(None, None, 5))
        pixels[lines] = 255
        (folder / ("top", "bottom")[1 - i % 2]).mkdir(exist_ok=True)
        Image.fromarray(pixels).save(folder / ("top", "bottom")[1 - i % 2] / f"{i:02}.png")
    return folder


@pytest.fixture(scope="session")
def coloured(photographs, tmp_path_factory):
    """A run on their pixels, resized."""
    folder = tmp_path_factory.mktemp("runs") / "coloured"
    options = [
        "--dataset",
        str(photographs),
        "--image-size",
        "16",
        "--data-dir",
        str(folder.parent / "data"),
    ]
    assert main([*options, *SMALL, "--results", str(folder)]) == 0
    return folder


def ask(run, *images, output):
    arguments = ["predict", str(run), "--image", *map(str, images), "--output", str(output)]
    assert main(arguments) == 0
    return pd.read_csv(output / "image-predictions.csv" if output.is_dir() else output)


def test_a_folder_is_learned_and_images_are_asked_about(photographs, coloured, tmp_path, capsys):
    about = record(coloured)
    assert about["dataset"]["image_shape"] == [3, 16, 16]
    assert about["dataset"]["classes"] == ["bottom", "top"]
    assert about["test_error"] == 0
    answers = ask(coloured, photographs / "top", photographs / "bottom" / "00.png", output=tmp_path)
    assert answers["predicted"].tolist() == ["top"] * 15 + ["bottom"]
    assert answers["image"].tolist()[-1] == str(photographs / "bottom" / "00.png")
    output = capsys.readouterr().out
    assert f"image      {photographs / 'bottom' / '00.png'}: bottom" in output


def test_an_image_that_cannot_be_read_keeps_no_other_from_its_answer(
    photographs, coloured, tmp_path, capsys
):
    (tmp_path / "text.png").write_text("hello")
    (tmp_path / "empty").mkdir()
    arguments = ["predict", str(coloured), "--output", str(tmp_path / "a.csv"), "--image"]
    assert main([*arguments, str(tmp_path / "text.png"), str(photographs / "top" / "01.png")]) == 1
    output = capsys.readouterr()
    assert "--image must be an image" in output.err
    assert "images     2, 1 that cannot be read left without an answer" in output.out
    answers = pd.read_csv(tmp_path / "a.csv")
    assert answers["predicted"].fillna("").tolist() == ["", "top"]
    assert main([*arguments, str(tmp_path / "text.png")]) == 2
    assert main([*arguments, str(tmp_path / "empty")]) == 2
    assert "has none" in capsys.readouterr().err.splitlines()[-1]


def test_images_of_12_bits_and_names_without_utf8_come_back_as_they_were_learned(tmp_path, capsys):
    folder, rng = tmp_path / "own", np.random.default_rng(0)
    for i in range(20):
        name = (os.fsdecode(b"caf\xe9"), "dark")[i % 2]
        (folder / name).mkdir(parents=True, exist_ok=True)
        values = rng.integers(0, 60, (8, 8)) + (3000 if i % 2 == 0 else 2600)
        values[0, 0] = 4095
        file = folder / name / os.fsdecode(b"\xe9%02d.png" % i)
        Image.fromarray(values.astype(np.uint16)).save(file)
    run, options = tmp_path / "run", ["--gray", "--data-dir", str(tmp_path / "data")]
    assert main(["--dataset", str(folder), *options, *SMALL, "--results", str(run)]) == 0
    about = record(run)
    assert about["dataset"]["classes"] == [r"caf\xe9", "dark"]
    assert about["dataset"]["notes"] == ["20 images of 16 bits scaled by 4095, the largest of them"]
    assert about["image_form"]["white"] == {"16 bits": 4095}
    assert r"caf\xe9" in (run / "report.html").read_text()

    answers = ask(run, folder, output=tmp_path / "a.csv")
    assert answers["predicted"].tolist() == [r"caf\xe9"] * 10 + ["dark"] * 10
    assert answers["image"].iloc[0] == str(folder / r"caf\xe9" / r"\xe900.png")
    form = ImageFormat(**about["image_form"])
    row = read_image(folder / "dark" / os.fsdecode(b"\xe901.png"), form)
    assert row[0] == 255
    assert set(row[1:]) <= {*range(161, 167)}  # 2600 to 2659 of 4095

    for name, value in (("bright", 5000), ("wide", 70_000)):
        dtype = np.uint16 if value < 65536 else np.int32
        Image.fromarray(np.full((8, 8), value, dtype)).save(tmp_path / f"{name}.tif")
    capsys.readouterr()
    images = [str(tmp_path / "bright.tif"), str(tmp_path / "wide.tif")]
    assert main(["predict", str(run), "--output", str(tmp_path / "b.csv"), "--image", *images]) == 1
    output = capsys.readouterr()
    assert "its values (32 bits) reach 70000, and the run had no such images" in output.err
    assert "note       1 image with values above the scale of the run" in output.out


def test_folders_of_images_to_predict_are_read_as_those_of_a_data_set(
    photographs, coloured, tmp_path, capsys
):
    (tmp_path / "new" / ".thumbnails").mkdir(parents=True)
    for path in ("1.png", ".thumbnails/1.png", "._1.png"):
        shutil.copy(photographs / "top" / "01.png", tmp_path / "new" / path)
    (tmp_path / "new" / "again.png").symlink_to("1.png")
    (tmp_path / "new" / "loop").symlink_to(".")
    (tmp_path / "new" / "2.gif").write_text("x")
    answers = ask(coloured, tmp_path / "new", output=tmp_path / "a.csv")
    assert answers["image"].tolist() == [str(tmp_path / "new" / "1.png")]
    output = capsys.readouterr().out
    assert "note       1 file is left out: 1 .gif; read are" in output
    assert "note       2 links to what is in the same folder already are left out" in output


def test_digits_drawn_by_hand_are_brought_to_the_form_of_the_data(finished, tmp_path):
    from sklearn.datasets import load_digits

    for number in (0, 4, 6):
        drawn = 255 - np.kron(load_digits().images[number] * 15.9, np.ones((20, 20)))
        drawn = np.pad(drawn, 40, constant_values=255).astype(np.uint8)
        Image.fromarray(drawn).save(tmp_path / f"{number}.png")
    answers = ask(finished[0], tmp_path, output=tmp_path / "a.csv")
    assert answers["predicted"].tolist() == [0, 4, 6]


@pytest.mark.parametrize(
    ("name", "options", "n_features"),
    [
        ("hog", [], 2088),
        pytest.param(
            "resnet18", ["--weights", "random", "--feature-size", "32"], 512, marks=pytest.mark.slow
        ),
    ],
)
def test_features_are_computed_once_and_for_new_images(
    name,
    options,
    n_features,
    photographs,
    tmp_path,
    monkeypatch,
    capsys,
):
    chosen = [
        "--dataset",
        str(photographs),
        "--image-size",
        "16",
        "--features",
        name,
        *options,
        "--data-dir",
        str(tmp_path / "data"),
        "--results",
    ]
    assert main([*chosen, str(tmp_path / "run"), *SMALL[:-1]]) == 0
    output = capsys.readouterr().out
    assert f"features   {name}: {n_features:,} of each image, computed in" in output
    about = record(tmp_path / "run")
    assert about["features"]["name"] == name
    assert about["test_error"] == 0
    assert about["dataset"]["image_shape"] == [3, 16, 16]
    answers = ask(tmp_path / "run", photographs, output=tmp_path / "a.csv")
    assert answers["predicted"].tolist() == ["bottom"] * 15 + ["top"] * 15

    def refuse(*args):
        raise AssertionError("the features were computed before")

    monkeypatch.setattr("pipelines.search.image_features.features_of_batch", refuse)
    assert main([*chosen, str(tmp_path / "again"), *SMALL]) == 0
    for table in ("cv_results.parquet", "test_predictions.parquet"):
        names = ["C", "gamma", "fold", "n_errors"] if table[0] == "c" else ["row", "predicted"]
        first, again = (
            pd.read_parquet(tmp_path / run / table)[names].sort_values(names).reset_index(drop=True)
            for run in ("run", "again")
        )
        pd.testing.assert_frame_equal(first, again)


def test_weights_of_a_file_are_loaded_and_must_stay(photographs, tmp_path, capsys):
    import torch
    from torchvision import models

    torch.manual_seed(3)
    network = models.get_model("resnet18", weights=None)
    torch.save(network.state_dict(), tmp_path / "own.pth")
    options = [
        "--dataset",
        str(photographs),
        "--image-size",
        "16",
        "--data-dir",
        str(tmp_path / "data"),
        "--features",
        "resnet18",
        "--feature-size",
        "32",
        "--weights",
        str(tmp_path / "own.pth"),
    ]
    run = tmp_path / "run"
    assert main([*options, *SMALL, "--results", str(run)]) == 0
    assert len(record(run)["features"]["weights"]) == 64
    ask(run, photographs / "top", output=tmp_path / "a.csv")
    (kept,) = (tmp_path / "data" / "features").iterdir()
    assert np.load(kept)["train"].shape == (24, 512)

    torch.save(models.get_model("resnet18", weights=None).state_dict(), tmp_path / "own.pth")
    assert main(["predict", str(run), "--image", str(photographs)]) == 2
    assert "weights of resnet18 that it was run with" in capsys.readouterr().err
    content = json.loads((run / "run.json").read_text()) | {"status": "running"}
    (run / "run.json").write_text(json.dumps(content))
    assert main(["--resume", str(run)]) == 2
    assert "--resume needs the --weights it began with" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--dataset", "--data-dir", "--results"])
def test_a_path_that_is_no_utf8_is_refused_where_a_run_would_record_it(option, tmp_path, capsys):
    path = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(path)
    assert main([option, os.fsdecode(path), "--dry-run"]) == 2
    assert f"{option} must be UTF-8, as the files of a run" in (output := capsys.readouterr().err)
    assert output.endswith("caf\\xe9'; rename it, or give a link to it\n")


def test_features_of_a_file(photographs, tmp_path):
    features = np.random.default_rng(0).normal(size=(30, 4)) + np.repeat([[0], [9]], 15, axis=0)
    np.save(tmp_path / "own.npy", features)
    options = [
        "--dataset",
        str(photographs),
        "--image-size",
        "16",
        "--data-dir",
        str(tmp_path / "data"),
        "--features",
        str(tmp_path / "own.npy"),
    ]
    assert main([*options, *SMALL, "--results", str(tmp_path / "run")]) == 0
    assert record(tmp_path / "run")["test_error"] == 0
    assert main(["predict", str(tmp_path / "run"), "--image", str(photographs)]) == 2
