"""``--estimator network --network NAME``: a network beside others, of classes and of numbers."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from sklearn.datasets import load_diabetes

from pipelines import InputError, Run, cross_validate
from pipelines.cross_validate import main
from pipelines.run.predict import load_model
from tests.command_runs import ON_THREADS, cells, record, said_by
from tests.nn_bagging.conftest import image

pytest.importorskip("torch", reason="networks need torch, which comes with the extra nn")

NETWORK = """
from torch import nn

class Net(nn.Sequential):
    def __init__(self, n_features, n_outputs):
        super().__init__(nn.Flatten(), nn.Linear(n_features, 8), nn.ReLU(), nn.Linear(8, n_outputs))

class Wider(nn.Sequential):
    def __init__(self, n_features, n_outputs):
        super().__init__(nn.Flatten(), nn.Linear(n_features, 9), nn.ReLU(), nn.Linear(9, n_outputs))
"""
SMALL = ["--limit", "200", "--folds", "2", *ON_THREADS]
SCORES = ["algorithm", "fold", "score", "loss", "status"]


@pytest.fixture(scope="module")
def diabetes(tmp_path_factory):
    path = tmp_path_factory.mktemp("numbers") / "diabetes.csv"
    load_diabetes(as_frame=True).frame.to_csv(path, index=False)
    return path


def test_the_option_is_the_parameter(tmp_path):
    """With other workers, too."""
    of_parameter = ["--estimator", "network", "--param", "network=cnn", "max_epochs=2"]
    of_option = ["--network", "cnn", "--estimator", "network", "--param", "max_epochs=2"]
    common = [*SMALL, "--estimator", "logistic"]
    by_parameter = ["--workers", "1", *of_parameter, *common, "--results", str(tmp_path / "a")]
    said_by("cross_validate", *by_parameter)
    by_option = ["--workers", "2", *of_option, *common, "--results", str(tmp_path / "b")]
    output = said_by("cross_validate", *by_option)
    assert "network    cnn: 14,458 weights" in output
    pd.testing.assert_frame_equal(*(cells(tmp_path / name)[[*SCORES, "params"]] for name in "ab"))
    assert record(tmp_path / "b")["options"]["network"] == "cnn"
    assert "network = cnn" in (tmp_path / "b" / "report.html").read_text()


def test_numbers_beside_others_then_of_new_rows(diabetes, tmp_path):
    folder, answers = tmp_path / "run", tmp_path / "answers.csv"
    of_data = ["--dataset", str(diabetes), "--target", "target", *ON_THREADS]
    both = ["--estimator", "ridge", "--estimator", "network", "--nested", "2"]
    said_by("cross_validate", *of_data, *both, "--results", str(folder))
    table = cells(folder)
    means = table.groupby("algorithm")["score"].mean()
    assert means["network"] > means["ridge"] - 0.1
    of_networks = table[table["algorithm"] == "network"]
    assert set(of_networks["family"]) == {"stacked networks"}
    assert of_networks["loss"].notna().all()
    assert record(folder)["nested"]["score_mean"] > 0.3
    alone = ["--estimator", "network", "--network", "mlp", "--results", str(tmp_path / "mlp")]
    said_by("cross_validate", *of_data, *alone)
    arguments = ["predict", str(tmp_path / "mlp"), str(diabetes), "--output", str(answers)]
    said_by("cross_validate", *arguments)
    rows = pd.read_csv(diabetes)
    predicted = pd.read_csv(answers)["predicted"]
    assert predicted.corr(rows["target"]) > 0.6
    model = Run(tmp_path / "mlp").model
    assert model.predict(rows.drop(columns="target")) == pytest.approx(predicted)


@pytest.fixture(scope="module")
def own_network(tmp_path_factory):
    """A run with a network of one's own, and its file."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "mine.py").write_text(NETWORK)
    options = ["--estimator", "network", "--param", "max_epochs=1", "batch_size=32"]
    options += ["--network", f"{folder}/mine.py:Net", "--results", str(folder / "run")]
    said_by("cross_validate", *SMALL, *options)
    return folder / "run", folder / "mine.py"


def test_predict_runs_the_file_that_is_named(own_network, tmp_path, capsys):
    run, mine = own_network
    rows = pd.DataFrame([[0.0] * 64])
    with pytest.raises(InputError, match=f"network must be named again.*network='{mine}:Net'"):
        Run(run).model.predict(rows)
    moved = tmp_path / "moved.py"
    moved.write_text(NETWORK)
    labels = load_model(run, network=f"{moved}:Net").predict(rows)
    question = ["predict", str(run), "--image", str(image(tmp_path / "five.png", 5))]
    question += ["--output", str(tmp_path / "answers.csv")]
    assert labels.shape == (1,)
    assert main(question) == 2
    assert f"look at it, then give --network {mine}:Net" in capsys.readouterr().err
    assert main([*question, "--network", f"{moved}:Net"]) == 0
    for name, message in {
        f"{mine}:Wider": "--network must be the network that was trained",
        "cnn": "--network must be FILE.py:Class or module:Class",
    }.items():
        assert main([*question, "--network", name]) == 2
        assert message in capsys.readouterr().err


def test_its_file_is_named_again_and_the_same_where_a_run_goes_on(own_network, capsys):
    run, mine = own_network
    assert list(record(run)["identity"]["inputs"]) == ["network"]
    before = cells(run)[SCORES]
    first, *_ = (run / "journal.jsonl").read_text().splitlines(keepends=True)
    (run / "journal.jsonl").write_text(first)
    interrupted = record(run) | {"status": "running"}
    (run / "run.json").write_text(json.dumps(interrupted))
    assert main(["--resume", str(run), "--quiet"]) == 2
    output = capsys.readouterr().err
    assert output.rstrip().endswith(f"then resume with --network {mine}:Net")
    again = ["--resume", str(run), "--quiet", "--network", f"{mine}:Net"]
    mine.write_text(NETWORK.replace("8", "7"))
    assert main(again) == 2
    assert "mine.py of --network was" in capsys.readouterr().err
    mine.write_text(NETWORK)
    assert main(again) == 0
    pd.testing.assert_frame_equal(cells(run)[SCORES], before)


def test_a_model_that_is_no_network_takes_none(tmp_path):
    run = cross_validate.run(
        limit=100, folds=2, estimator=["knn"], cluster="threads", results=str(tmp_path / "run")
    )
    with pytest.raises(InputError, match="has KNeighborsClassifier; leave it out"):
        load_model(run.path, network="mine.py:Net")
