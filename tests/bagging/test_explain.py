from __future__ import annotations

import numpy as np

from pipelines.bagging.explain import SamplesToExplain, explained_arrays
from pipelines.bagging.reductions import reduce_members


def test_ones_own_image_is_no_test_sample_however_hard_it_is() -> None:
    sure, split = [[0.9, 0.1], [0.9, 0.1]], [[0.9, 0.1], [0.1, 0.9]]
    probabilities = np.array([sure, sure, split]).transpose(1, 0, 2)
    asked = SamplesToExplain([1], ["hard.png"])
    found = explained_arrays(
        reduce_members(probabilities),
        probabilities,
        np.zeros((3, 4)),
        np.array([0, 1]),
        asked,
        np.array([False, False, True]),
    )
    assert sorted(found["name"][:2]) == ["test sample 0", "test sample 1"]
    assert found["name"][2:] == ["test sample 1", "hard.png"]
    assert found["group"] == ["disagreement", "disagreement", "chosen", "own"]
    assert found["true"].tolist()[2:] == [1, -1]
    assert found["deferred"].tolist() == [False, False, False, True]
