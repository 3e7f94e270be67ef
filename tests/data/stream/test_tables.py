"""Parquet tables on disk: the rows, their target and preparation beside those in memory."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import psutil
import pytest

pytest.importorskip("torch", reason="batches are torch's tensors")

from pipelines.data.load import load_dataset
from pipelines.data.stream import tables
from pipelines.data.stream.row_feed import RowFeed
from pipelines.data.stream.streamed_rows import RowsOnDisk
from pipelines.data.stream.tables import TableStore, open_table
from pipelines.data.tables import Reading
from pipelines.errors import InputError
from pipelines.parallel.training_problem import load_rows

N = 500


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(N, 3)), columns=list("abc"))
    frame.loc[::40, "b"] = np.nan
    frame["colour"] = rng.choice(["red", "green", "blue"], N)
    frame["kind"] = np.where(frame.a + (frame.colour == "red") > 0, "yes", "no")
    return frame


@pytest.fixture
def path(tmp_path, frame):
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=60, index=False)
    return tmp_path / "t.parquet"


def problem(path, input, **how):
    settings = {
        "task": None,
        "target": "kind",
        "limit": None,
        "test_size": 0.2,
        "reading": Reading(),
    }
    settings |= {"validation": 0.1, "seed": 0, "input": input} | how
    return load_rows(str(path), "mlp", (8,), **settings)


def rows_of(part, tmp_path):
    X = part["X"]
    if not isinstance(X, RowsOnDisk):
        return X
    feed = RowFeed([X], n_workers=0, directory=str(tmp_path / "cache"))
    parts = np.array_split(np.arange(len(X)), 5)
    return np.concatenate([rows.numpy() for rows in feed.blocks(X, parts)])


@pytest.mark.parametrize("target", ["kind", "a"])
def test_where_the_sample_is_all_rows_are_those_in_memory(path, tmp_path, target):
    how = {"target": target, "task": "regression" if target == "a" else None}
    in_memory, on_disk = problem(path, "memory", **how), problem(path, "stream", **how)
    assert [X.shape for X in on_disk.on_disk] == [
        part["X"].shape for part in (in_memory.train, in_memory.validation, in_memory.test)
    ]
    for name in ("train", "validation", "test"):
        mine, theirs = getattr(on_disk, name), getattr(in_memory, name)
        assert np.allclose(rows_of(mine, tmp_path), theirs["X"], atol=1e-6)
        assert (mine["y"] == theirs["y"]).all()
    assert on_disk.unit == in_memory.unit


def test_classes_are_those_of_all_rows_and_the_rest_is_of_the_sample(
    path, frame, tmp_path, monkeypatch
):
    frame.loc[480:490, "kind"] = "seldom"
    frame.to_parquet(path, row_group_size=60, index=False)
    monkeypatch.setattr(tables, "SAMPLED_ROWS", 40)
    dataset = problem(path, "stream")
    assert dataset.classes.tolist() == ["no", "seldom", "yes"]
    text = "\n".join(dataset.lines)
    assert "prepared by a sample of 45 rows, the target is read whole" in text
    n_fitted = int(text.partition("prepared   by ")[2].split()[0])
    assert 20 < n_fitted < 45  # those of the sample that are trained on
    assert np.isfinite(rows_of(dataset.train, tmp_path)).all()


def test_each_row_group_is_read_once(path, tmp_path, monkeypatch):
    reads = Counter()
    read = TableStore.read

    def counted(store, unit):
        reads[unit] += 1
        return read(store, unit)

    monkeypatch.setattr(TableStore, "read", counted)
    dataset = problem(path, "stream")
    for part in (dataset.train, dataset.validation, dataset.test, dataset.train):
        rows_of(part, tmp_path)
    assert reads == dict.fromkeys(range(9), 1)


def test_without_a_cache_row_groups_are_held_for_the_next_batch(path, tmp_path, monkeypatch):
    dataset = problem(path, "stream")
    (tmp_path / "file").touch()
    messages = []
    X = dataset.train["X"]
    feed = RowFeed([X], n_workers=0, directory=str(tmp_path / "file" / "no"), say=messages.append)
    (rows,) = feed.blocks(X, [np.arange(len(X))])
    assert (rows.numpy() == rows_of(dataset.train, tmp_path)).all()
    assert messages[0].startswith("cache      none, cannot write")


def test_a_folder_of_files_is_one_table(path, frame, tmp_path):
    folder = tmp_path / "parts.parquet"
    folder.mkdir()
    for i in range(11):
        frame[i * 50 : (i + 1) * 50].to_parquet(folder / f"part-{i}.parquet", index=False)
    dataset = problem(folder, "stream")
    assert (dataset.train["y"] == problem(path, "stream").train["y"]).all()
    assert np.allclose(
        rows_of(dataset.train, tmp_path), rows_of(problem(path, "stream").train, tmp_path)
    )


def test_what_changes_the_rows_changes_their_identity(path, frame):
    before = problem(path, "stream").fingerprint
    assert problem(path, "stream").fingerprint == before
    frame.loc[3, "c"] += 1e-9
    frame.to_parquet(path, row_group_size=60, index=False)
    assert problem(path, "stream").fingerprint != before


def test_by_size_a_table_stays_on_disk(path, monkeypatch):
    assert problem(path, "auto").on_disk == []
    memory = psutil.virtual_memory()
    small = memory._replace(total=N * 5 * 6)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: small)
    with pytest.raises(InputError, match="row groups of at most an eighth of the memory"):
        problem(path, "auto")
    frame = pd.read_parquet(path)
    frame.to_parquet(path, row_group_size=20, index=False)
    assert len(problem(path, "auto").on_disk) == 3


@pytest.mark.parametrize(
    ("reading", "message"),
    [
        (Reading(missing="drop"), "must be impute or refuse for rows that stay on disk"),
        (Reading(number=("nothing",)), r"must name feature columns of '.*t\.parquet'"),
    ],
)
def test_what_cannot_be_streamed_is_refused_by_the_name_of_the_file(path, reading, message):
    with pytest.raises(InputError, match=message) as error:
        open_table(path, "kind", None, reading, "stream")
    assert "/tmp/tmp" not in str(error.value)


def test_text_is_to_be_written_as_parquet(tmp_path, frame, monkeypatch):
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(InputError, match="leave it out, or write the table as Parquet"):
        problem(tmp_path / "t.csv", "stream")
    small = psutil.virtual_memory()._replace(total=1000)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: small)
    with pytest.raises(InputError, match=r"must be \.parquet where it is larger than half"):
        load_dataset(str(tmp_path / "t.csv"), target="kind", input="auto")


def test_what_only_rows_outside_the_sample_have_is_said(frame, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "SAMPLED_ROWS", 60)
    frame.loc[N - 1, ["colour", "a"]] = ["mauve", np.nan]
    frame.loc[N - 2, "colour"] = None
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=60, index=False)
    table = open_table(tmp_path / "t.parquet", "kind", None, Reading(), "stream")
    assert table is not None
    text = "\n".join(table.lines())
    assert "levels that the sample lacks, taken for none of the others: colour (1 row)" in text
    assert "have none in the sample, filled in: a (1 row), colour (1 row)" in text
    frame["c"] = frame["c"].astype(str)
    frame.loc[N - 1, "c"] = "oops"
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=60, index=False)
    with pytest.raises(InputError, match=f"has 'oops' in data row {N}"):
        open_table(tmp_path / "t.parquet", "kind", None, Reading(), "stream")
