"""What the command refuses, in one line."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from pipelines.nn_bagging import main
from tests.command_runs import record

from .conftest import image

BAD = {
    "rows": (["--explain", "7,x"], "--explain must be rows such as 7,18, got 7,x"),
    "row": (["--explain", "360"], "--explain must be rows of the test set, 0 to 359, got 360"),
    "image": (["--image", "none.png"], "--image .*none.png: No such file"),
    "space": (["--space", "smal"], "--space .*did you mean 'small'"),
    "precision": (["--precision", "fp16"], "--precision"),
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


def test_without_torch_one_line_names_the_extra(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.nn.settings.find_spec", lambda name: None)
    for argv in (["--results", str(tmp_path / "r")], ["predict", str(tmp_path), "--image", "x"]):
        assert main(argv) == 2
        said = capsys.readouterr().err
        assert "need torch" in said
        assert "'.[nn]'" in said
        assert len(said.splitlines()) == 1
    assert not (tmp_path / "r").exists()


def test_changed_pictures_are_refused(
    tmp_path: Path, finished: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(finished[0], folder)
    own = image(tmp_path / "mine.png", 0)
    about = record(folder) | {"status": "running"}
    about["options"]["image"] = [str(own)]
    (folder / "run.json").write_text(json.dumps(about))
    image(own, 5)
    assert main(["--resume", str(folder)]) == 2
    assert "needs the images of --image unchanged, but one has changed" in capsys.readouterr().err
