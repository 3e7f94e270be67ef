from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipelines.bagging.members import MemberFiles
from pipelines.bagging.out_of_bag import OutOfBagPrediction
from pipelines.data.scaling import FittedScaling
from pipelines.nn.inputs import Inputs, weight_shapes
from pipelines.nn.member import Ensemble, Member
from pipelines.nn.space import Candidate

INPUTS = Inputs(4, 3)
CANDIDATE = Candidate("mlp", 5, 0.1, 0.5)
CLASSES = np.array(["a", "b", "c"])
NOTHING = OutOfBagPrediction(np.empty(0, np.int32), np.empty((0, 3), np.float32))


def member(seed: int) -> Member:
    rng = np.random.default_rng(seed)
    shapes = weight_shapes(CANDIDATE, INPUTS)
    weights = {name: rng.normal(size=s).astype(np.float32) for name, s in shapes.items()}
    return Member(CANDIDATE, INPUTS, weights, FittedScaling(0.0, 1.0))


def test_a_member_comes_back_as_it_was(tmp_path: Path) -> None:
    files = MemberFiles(tmp_path)
    assert files.numbers() == []
    assert not files.has(3)
    said = np.random.default_rng(0).random((7, 3)).astype(np.float32)
    out_of_bag = OutOfBagPrediction(np.array([1, 4], dtype=np.int32), said[:2])
    files.save(3, member(3), said, out_of_bag, CLASSES)
    files.save(0, member(0), said, out_of_bag, CLASSES)
    assert files.numbers() == [0, 3]
    assert files.has(3)
    np.testing.assert_array_equal(files.probabilities(3), said)
    back = files.out_of_bag(3)
    assert back is not None
    np.testing.assert_array_equal(back.rows, [1, 4])
    np.testing.assert_array_equal(back.probabilities, said[:2])
    (tmp_path / "members" / "member-00-out-of-bag.npz").write_bytes(b"garbage")
    assert files.out_of_bag(0) is None
    assert files.has(0)
    stored = Ensemble.load(files.weights(3))
    assert stored.classes_.tolist() == ["a", "b", "c"]
    X = np.random.default_rng(1).normal(size=(6, 4))
    np.testing.assert_array_equal(stored.member_proba(X)[0], member(3).predict_proba(X))
    assert not list(tmp_path.rglob("*.part"))


def test_half_a_member_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = MemberFiles(tmp_path)

    def full(*arguments: object, **more: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(OSError, match="No space"):
        files.save(1, member(1), np.zeros((2, 3), np.float32), NOTHING, CLASSES)
    assert not files.has(1)
