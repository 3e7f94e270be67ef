"""An ensemble of networks of the user's own: their code is run where the user names it, and only
from there."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from pipelines import Run
from pipelines.errors import InputError
from pipelines.nn_bagging import main
from pipelines.run.predict import load_model

from .conftest import image

NETWORK = """
from torch import nn

class Net(nn.Sequential):
    def __init__(self, n_features, n_classes):
        super().__init__(nn.Flatten(), nn.Linear(n_features, 8), nn.ReLU(), nn.Linear(8, n_classes))

class Wider(nn.Sequential):
    def __init__(self, n_features, n_classes):
        super().__init__(nn.Flatten(), nn.Linear(n_features, 9), nn.ReLU(), nn.Linear(9, n_classes))

def shift(images, generator):
    return images.roll(1, -1)
"""
SMALL = ["--limit", "150", "--n-bootstrap", "2", "--n-tuning", "0", "--max-epochs", "1"]
SMALL += ["--batch-size", "32", "--cluster", "threads", "--quiet"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run with a network and an augmentation of one's own, and their file."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "mine.py").write_text(NETWORK)
    options = ["--network", f"{folder}/mine.py:Net", "--augment", f"{folder}/mine.py:shift"]
    assert main([*SMALL, *options, "--results", str(folder / "run")]) == 0
    return folder / "run", folder / "mine.py"


def about_an_image(tmp_path):
    return ["--image", str(image(tmp_path / "five.png", 5)), "--output", str(tmp_path / "a.csv")]


def test_predict_runs_the_file_that_is_named(trained, tmp_path, capsys):
    run, mine = trained
    question = ["predict", str(run), *about_an_image(tmp_path)]
    assert main(question) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert message.rstrip().endswith(f"look at it, then give --network {mine}:Net")
    moved = tmp_path / "moved.py"
    moved.write_text(NETWORK)
    named = ["--network", f"{moved}:Net"]
    assert main([*question, *named]) == 0
    assert main([*question, "--network", f"{mine}:Wider"]) == 2
    assert "--network must be the network that was trained" in capsys.readouterr().err
    assert main([*question, "--network", "cnn"]) == 2
    assert "--network must be FILE.py:Class or module:Class" in capsys.readouterr().err
    assert main([*question, *named, "--copies", "1"]) == 2
    assert f"then give --augment {mine}:shift" in capsys.readouterr().err
    assert main([*question, *named, "--copies", "1", "--augment", f"{moved}:shift"]) == 0


def test_from_python_a_class_is_handed_over(trained):
    run, mine = trained
    rows = np.zeros((2, 64))
    model = Run(run).model
    with pytest.raises(InputError, match=r"network must be named again"):
        model.predict(rows)
    namespace = {}
    exec(NETWORK, namespace)
    answers = [
        load_model(run, network=network).predict_proba(rows)
        for network in (namespace["Net"], f"{mine}:Net")
    ]
    np.testing.assert_array_equal(*answers)


def test_code_that_a_member_names_is_not_imported(finished_of, tmp_path, capsys):
    """A network's name is changed in a member of a run of ours, and digests are taken out."""
    import shutil

    run = shutil.copytree(finished_of("nn_bagging")[0], tmp_path / "run")
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'mark')!r}, 'w').close()\nDrop = 1")
    for path in (run / "members").glob("*.safetensors"):
        with safe_open(path, framework="numpy") as stored:
            metadata = stored.metadata()
        members = json.loads(metadata["members"])
        members[0]["network"] = f"{tmp_path}/evil.py:Drop"
        save_file(load_file(path), path, metadata | {"members": json.dumps(members)})
    about = json.loads((run / "run.json").read_text())
    del about["files"]
    (run / "run.json").write_text(json.dumps(about))
    assert main(["predict", str(run), *about_an_image(tmp_path)]) == 2
    assert "--network must be named again" in capsys.readouterr().err
    with pytest.raises(InputError, match="network must be named again"):
        Run(run).model.predict(np.zeros((2, 64)))
    assert not (tmp_path / "mark").exists()


def test_networks_of_ours_need_no_name(finished_of, tmp_path, capsys):
    run = finished_of("nn_bagging")[0]
    assert main(["predict", str(run), *about_an_image(tmp_path), "--network", "mine.py:Net"]) == 2
    assert "--network is for networks of your own" in capsys.readouterr().err
