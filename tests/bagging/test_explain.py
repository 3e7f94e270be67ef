from __future__ import annotations

import numpy as np

from pipelines.bagging.explain import SamplesToExplain, explained_arrays
from pipelines.bagging.reductions import reduce_members


def test_ones_own_image_is_no_test_sample_however_hard_it_is():
    sure, split = [[0.9, 0.1], [0.9, 0.1]], [[0.9, 0.1], [0.1, 0.9]]
    probabilities = np.array([sure, sure, split]).transpose(1, 0, 2)
    samples = SamplesToExplain([1], ["hard.png"])
    arrays = explained_arrays(
        reduce_members(probabilities),
        probabilities,
        np.zeros((3, 4)),
        np.array([0, 1]),
        samples,
        np.array([False, False, True]),
    )
    assert sorted(arrays["name"][:2]) == ["test sample 0", "test sample 1"]
    assert arrays["name"][2:] == ["test sample 1", "hard.png"]
    assert arrays["group"] == ["disagreement", "disagreement", "chosen", "own"]
    assert arrays["true"].tolist()[2:] == [1, -1]
    assert arrays["deferred"].tolist() == [False, False, False, True]
