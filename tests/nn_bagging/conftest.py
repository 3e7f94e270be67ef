"""Runs of ``nn_bagging`` that the tests of this folder share."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from tests.command_runs import finished_run, said_by


def said_by_members(folder):
    with np.load(folder / "member_probabilities.npz", allow_pickle=False) as arrays:
        return arrays["probabilities"]


def image(path, row):
    """A digit as a person scans it: dark, on light paper, large."""
    ink = np.kron(load_digits().images[row] / 16, np.ones((30, 30)))
    paper = np.pad(240 - 200 * ink, 60, constant_values=240)
    Image.fromarray(paper.astype(np.uint8)).save(path)
    return path


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    picture = image(folder / "mine.png", 0)
    words = ["--explain", "7,18", "--image", str(picture), "--workers", "2"]
    return finished_run("nn_bagging", folder / "small", *words)


@pytest.fixture(scope="session")
def undisturbed(undisturbed_of):
    return undisturbed_of("nn_bagging")


@pytest.fixture(scope="session")
def guaranteed(tmp_path_factory):
    """A run that was asked for an error among what is kept; what it said."""
    folder = tmp_path_factory.mktemp("runs") / "guaranteed"
    words = [
        "--limit",
        "700",
        "--n-bootstrap",
        "5",
        "--n-tuning",
        "2",
        "--folds",
        "2",
        "--defer-error",
        "0.2",
        "--cluster",
        "threads",
    ]
    return folder, said_by("nn_bagging", *words, "--results", str(folder))
