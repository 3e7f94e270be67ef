from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from pipelines.bagging.members import MemberFiles, prediction_key
from pipelines.bagging.reductions import as_dask_array, reduce_members
from pipelines.data.placement import FoldedData, SharedData
from pipelines.data.scaling import FittedScaling, Scaling
from pipelines.nn.batched_fit import Refitted
from pipelines.nn.inputs import Inputs, weight_shapes
from pipelines.nn.member import Ensemble, Member, OutOfBagPrediction, Prediction
from pipelines.nn.space import NetworkSpec
from pipelines.nn.stack import Score, TrainedNetwork

INPUTS = Inputs(4, 3)
CANDIDATE = NetworkSpec("mlp", 5, 0.1, 0.5)
CLASSES = np.array(["a", "b", "c"])
NO_PREDICTION = Prediction(np.empty((0, 3), np.float32), np.empty(0, np.float32))
NOTHING = OutOfBagPrediction(np.empty(0, np.int32), *NO_PREDICTION)


def member(seed):
    rng = np.random.default_rng(seed)
    shapes = weight_shapes(CANDIDATE, INPUTS)
    weights = {name: rng.normal(size=s).astype(np.float32) for name, s in shapes.items()}
    return Member(CANDIDATE, INPUTS, weights, FittedScaling(0.0, 1.0))


def refitted(*predictions):
    trained = TrainedNetwork(Score(0, 0, 0.0, 0.0, np.empty((0, 3))), (), "ok", 0.0)
    return Refitted(trained, 0.0, *predictions)


def test_a_member_comes_back_as_it_was(tmp_path):
    files = MemberFiles(tmp_path)
    assert files.numbers() == []
    X = np.random.default_rng(1).normal(size=(6, 4)).astype(np.float32)
    original = member(3).with_novelty(X, np.arange(6) % 3)
    prediction = original.predict(X)
    assert np.isfinite(prediction.distance).all()
    assert np.isnan(member(3).predict(X).distance).all()
    out_of_bag = OutOfBagPrediction(
        np.array([1, 4], dtype=np.int32), *(array[:2] for array in prediction)
    )
    files.save(3, refitted(original, prediction, out_of_bag), CLASSES)
    files.save(0, refitted(member(0), prediction, out_of_bag), CLASSES)
    assert files.numbers() == [0, 3]
    for kept, expected in zip(files.predictions(3), (prediction, out_of_bag), strict=True):
        for back, array in zip(kept, expected, strict=True):
            np.testing.assert_array_equal(back, array)
    stored = Ensemble.load(files.weights(3))
    assert stored.classes_.tolist() == ["a", "b", "c"]
    for back, array in zip(stored.members[0].predict(X), prediction, strict=True):
        np.testing.assert_array_equal(back, array)
    assert not list(tmp_path.rglob("*.part"))
    (tmp_path / "members" / "member-x.safetensors").touch()
    assert files.numbers() == [0, 3]


def test_half_a_member_is_none(tmp_path, monkeypatch):
    files = MemberFiles(tmp_path)

    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="No space"):
        files.save(1, refitted(member(1), NO_PREDICTION, NOTHING), CLASSES)
    assert not files.paths(1)[1].exists()


def test_what_files_say_comes_to_where_the_others_lie(tmp_path, gpu_stand_in):
    """As after a resumption: one member is in its file, the other in the worker's memory."""
    import cupy

    files, X = MemberFiles(tmp_path), np.random.default_rng(1).normal(size=(6, 4))
    predictions = [member(number).predict(X) for number in (0, 1)]
    files.save(0, refitted(member(0), predictions[0], NOTHING), CLASSES)
    rows = [{"member": number, "candidate": 1} for number in (0, 1)]
    gpu_prediction = Prediction(*map(cupy.asarray, predictions[1]))
    data = FoldedData(X, X[:0], X[:0], X[:0], (), Scaling("none"))
    data.placement.get(prediction_key(rows[1]), lambda: (gpu_prediction, NOTHING))
    for device in ("gpu", "cpu"):
        recalled = [
            files.recall(SharedData(SimpleNamespace(data=data)), row, device)[0] for row in rows
        ]
        together = as_dask_array([prediction.outputs for prediction in recalled])
        answers = reduce_members(together).compute(scheduler="sync")
        alone = reduce_members(np.stack([prediction.outputs for prediction in predictions]))
        np.testing.assert_allclose(answers.mean, alone.mean)
        assert {type(prediction.outputs) for prediction in recalled} == {
            cupy.ndarray if device == "gpu" else np.ndarray
        }
