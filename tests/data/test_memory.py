"""What unpacks to more than this machine has is refused by its own account, unread."""

from __future__ import annotations

import zipfile
from types import SimpleNamespace

import numpy as np
import pandas as pd
import psutil
import pytest

from pipelines.data.model_file import labels_as_json, labels_from_json
from pipelines.data.tables import read_raw_table
from pipelines.errors import InputError


def test_an_archive_that_claims_more_than_memory_is_refused(tmp_path):
    path = tmp_path / "large.npz"
    np.savez(path, y=np.arange(2))
    with zipfile.ZipFile(path, "a") as archive, archive.open("X.npy", "w") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (5_000_000_000_000, 8)}
        np.lib.format.write_array_header_1_0(file, header)
        file.write(bytes(80))
    with pytest.raises(InputError, match=r"large.npz' is no valid .npz file \(.*allocate"):
        read_raw_table(path)


def test_parquet_that_unpacks_to_more_than_memory_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "zeros.parquet"
    pd.DataFrame({"a": np.zeros(100_000), "y": np.arange(100_000) % 2}).to_parquet(path)
    assert path.stat().st_size < 1_000_000
    assert len(read_raw_table(path, "y").y) == 100_000
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=1_000_000))
    with pytest.raises(InputError, match=r"must fit in memory, .*take fewer rows or columns"):
        read_raw_table(path, "y")


def test_labels_of_a_monstrous_type_are_refused():
    stored = labels_as_json(np.array(["a", "bc"]))
    assert labels_from_json(stored).tolist() == ["a", "bc"]
    with pytest.raises(ValueError, match="take 2,000,000,000 bytes each"):
        labels_from_json(stored | {"dtype": "<U500000000"})
