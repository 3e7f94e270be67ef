"""Algorithms on features of images, which the workers of a cluster compute."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pipelines.cross_validate import main
from tests.command_runs import record


def test_features_are_what_algorithms_learn_from(tmp_path):
    from sklearn.model_selection import cross_val_score
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from pipelines.data.folds import make_folds
    from pipelines.data.load import load_dataset
    from pipelines.nn.features import Extractor

    run = tmp_path / "run"
    chosen = [
        "--limit",
        "120",
        "--features",
        "hog",
        "--data-dir",
        str(tmp_path / "data"),
        "--estimator",
        "knn",
        "--folds",
        "3",
        "--cluster",
        "local",
        "--workers",
        "1",
        "--quiet",
        "--results",
        str(run),
    ]
    assert main(chosen) == 0
    assert record(run)["features"]["name"] == "hog"
    assert record(run)["dataset"]["image_shape"] == [8, 8]
    data = load_dataset("digits", limit=120)
    hog = Extractor.of("hog").features(data.X_train, (8, 8))
    expected = cross_val_score(
        make_pipeline(StandardScaler(), KNeighborsClassifier()),
        hog,
        data.y_train,
        cv=make_folds(data.y_train, 3, 0),
    )
    cells = pd.read_parquet(run / "cv_results.parquet").sort_values("fold")
    assert cells["score"].round(9).tolist() == expected.round(9).tolist()


def test_random_weights_need_no_file():
    pytest.importorskip("torchvision", reason="networks of images are torchvision's")
    from pipelines.nn.features import Extractor

    network = Extractor.of("resnet18", size=32, weights="random")
    assert network.describe() == {
        "name": "resnet18",
        "size": 32,
        "weights": "random",
        "weights_name": "IMAGENET1K_V1",
    }
    features = network.features(np.arange(128, dtype=np.uint8).reshape(2, 64), (8, 8))
    assert features.shape == (2, 512)
    assert np.isfinite(features).all()
    assert not np.array_equal(features[0], features[1])
