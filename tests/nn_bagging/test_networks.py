"""A run of a module: without a search, augmented, resumed, asked with augmented copies."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from pipelines.bagging.work import Trainings
from pipelines.nn.member import Ensemble
from pipelines.nn_bagging import main

from .conftest import image

OPTIONS = [
    "--limit",
    "250",
    "--network",
    "cnn",
    "--augment",
    "light",
    "--n-bootstrap",
    "2",
    "--n-tuning",
    "0",
    "--max-epochs",
    "12",
    "--batch-size",
    "32",
    "--cluster",
    "threads",
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("networks") / "run"
    assert main([*OPTIONS, "--results", str(folder), "--workers", "2"]) == 0
    return folder


def test_members_are_trained_without_a_search(run):
    record = json.loads((run / "run.json").read_text())
    assert record["augment"] == "digits"
    assert record["vote_test_error"] < 0.2
    table = pd.read_parquet(run / "cv_results.parquet")
    assert table["fold"].tolist() == [-1, -1]
    assert set(table["network"]) == {"cnn"}


@pytest.mark.slow
def test_a_worker_less_and_a_resumption_change_no_bit(run, tmp_path):
    folder = tmp_path / "again"
    assert main([*OPTIONS, "--results", str(folder), "--workers", "1", "--quiet"]) == 0
    (folder / "members" / "member-01.npz").unlink()
    assert main(["--resume", str(folder), "--quiet"]) == 0
    for number in range(2):
        name = f"members/member-{number:02d}.safetensors"
        run_weights, other = (
            Ensemble.load(run_folder / name).members[0].weights for run_folder in (run, folder)
        )
        for array, weights in run_weights.items():
            np.testing.assert_array_equal(weights, other[array])


def test_members_trained_together_have_a_row_each_and_are_resumed(run, tmp_path, monkeypatch):
    """As on a GPU; one member that is gone is made again by itself."""
    in_groups, groups = Trainings.in_groups, []

    def as_on_a_gpu(plan):
        planned = in_groups(replace(plan, training=replace(plan.training, device="gpu")))
        groups.append(planned.groups)
        return replace(planned, training=plan.training)

    monkeypatch.setattr(Trainings, "in_groups", as_on_a_gpu)
    folder = tmp_path / "together"
    assert main([*OPTIONS, "--results", str(folder), "--workers", "2", "--quiet"]) == 0
    (folder / "members" / "member-01.npz").unlink()
    assert main(["--resume", str(folder), "--quiet"]) == 0
    assert groups == [[[0, 1]]] * 2
    assert json.loads((folder / "run.json").read_text())["lost_members"] == []
    alone = {member: losses for _, member, losses in losses_of(run)}
    together = losses_of(folder)
    tasks = ["refit-member=0 to 1"] * 2 + ["refit-member=1"]
    assert [(task, member) for task, member, _ in together] == list(
        zip(tasks, (0, 1, 1), strict=True)
    )
    for _, member, losses in together:
        # Rounding grows from step to step.
        assert losses[:3] == pytest.approx(alone[member][:3], rel=5e-3)


def losses_of(folder):
    """Task and member of each row of the journal, and the losses of its epochs."""
    records = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    return [
        (record["task"], row["member"], json.loads(row["losses"]))
        for record in records
        for row in record.get("rows", ())
    ]


def test_predict_averages_over_augmented_copies(run, tmp_path, capsys):
    picture = image(tmp_path / "five.png", 5)
    certainty = []
    for copies in ("0", "6", "6"):
        output = tmp_path / "answers.csv"
        arguments = ["--image", str(picture), "--output", str(output), "--copies", copies]
        assert main(["predict", str(run), *arguments]) == 0
        certainty.append(pd.read_csv(output)["certainty"][0])
        output.unlink()
    assert certainty[0] != certainty[1] == certainty[2]
    capsys.readouterr()
    assert main(["predict", str(run), "--image", str(picture), "--copies", "-1"]) == 2
    assert "--copies must be from 0 to 1000" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--network", "resnet81"], "did you mean 'resnet18'"),
        (["--network", "nowhere:Net"], "--network must be package.module:NAME or FILE.py:NAME"),
        (["--network", "mlp", "--space", "small"], "--network must be that of --space small, conv"),
        (["--augment", "heavy"], "--augment must be one of none, light"),
    ],
)
def test_bad_input_is_one_line(options, message, capsys):
    assert main([*options, "--dry-run"]) == 2
    error_text = capsys.readouterr().err
    assert message in error_text
    assert error_text.count("\n") == 1
