"""An ensemble on a table as it came: numbers, categories, missing cells."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pipelines.data.load import load_dataset
from pipelines.nn.member import Ensemble
from pipelines.nn_bagging import main


def mixed(n_rows, seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.normal(50, 10, n_rows).round(1),
            "sex": rng.choice(["F", "M", "?"], n_rows, p=[0.45, 0.45, 0.1]),
        }
    )
    frame["pay"] = np.where(frame.age + 12 * (frame.sex == "F") > 55, "high", "low")
    frame.loc[::7, "age"] = np.nan
    return frame


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table")
    mixed(200, 0).to_csv(folder / "pay.csv", index=False)
    options = [
        "--dataset",
        str(folder / "pay.csv"),
        "--n-bootstrap",
        "3",
        "--n-tuning",
        "2",
        "--folds",
        "3",
        "--cluster",
        "threads",
    ]
    assert main([*options, "--results", str(folder / "run"), "--quiet"]) == 0
    return folder / "run"


@pytest.mark.slow
def test_each_member_has_learned_from_its_own_rows(run):
    """Every preparation is another sample's: medians and means differ."""
    members = [
        Ensemble.load(path).members[0] for path in sorted((run / "members").glob("*.safetensors"))
    ]
    assert len(members) == 3
    data = load_dataset(str(run.parent / "pay.csv"))
    matrices = [member.scaling.transform(data.X_test)[:, 0] for member in members]
    assert not np.allclose(matrices[0], matrices[1])
    probabilities = np.stack([member.predict_proba(data.X_test) for member in members])
    with np.load(run / "member_probabilities.npz", allow_pickle=False) as arrays:
        np.testing.assert_allclose(probabilities, arrays["probabilities"], atol=1e-6)


def test_predict_takes_the_raw_table(run, tmp_path, capsys):
    other = mixed(50, 1)
    other[["pay", "sex", "age"]].to_csv(tmp_path / "other.csv", index=False, sep=";")
    assert main(["predict", str(run), str(tmp_path / "other.csv")]) == 0
    output = capsys.readouterr().out
    answers = pd.read_csv(tmp_path / "other-predictions.csv")
    assert {"row", "predicted", "certainty", "deferred"} < set(answers.columns)
    wrong = int(np.sum(answers.predicted != other.pay))
    assert wrong < 20
    assert f"({wrong} of 50) against column 'pay'" in output
