"""Networks on a table of several kinds of columns: each is given its own rows' preparation."""

import numpy as np
import pandas as pd
import pytest

from pipelines.data import load_dataset
from pipelines.data.placement import FoldedData
from pipelines.nn.device_rows import place_parts


@pytest.fixture
def data(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=90), "b": rng.choice(list("xyz"), 90)})
    frame.loc[::5, "a"] = np.nan
    frame.assign(kind=np.where(frame.b == "x", "one", "two")).to_csv(
        tmp_path / "t.csv", index=False
    )
    return FoldedData.of(load_dataset(str(tmp_path / "t.csv")))


def test_a_part_sees_nothing_of_the_rows_left_out(data):
    n = len(data.y)
    parts = [np.arange(0, n, 2), np.arange(n // 2)]
    placed = place_parts(data, parts, 2, "cpu")
    assert placed.X.shape == (2 * n, 5)
    assert placed.X.is_contiguous()
    for slot, rows in enumerate(parts):
        own = placed.X[slot * n : (slot + 1) * n].numpy()
        np.testing.assert_array_equal(own, data.scaling_for(rows).transform(data.X))
        np.testing.assert_array_equal(
            placed.one_hot[slot * n : (slot + 1) * n].numpy().argmax(axis=1), data.y
        )
    assert not np.array_equal(placed.X[:n], placed.X[n:])
