"""Images on disk as batches: what is given, by whom it is decoded, how often."""

from __future__ import annotations

import itertools
import os
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="batches are torch's tensors")

from PIL import Image

from pipelines.data.image_folder import ImageReading
from pipelines.data.load import load_dataset
from pipelines.data.stream import cache as caches
from pipelines.data.stream.cache import Cache, NoCache, folder_of
from pipelines.data.stream.image_rows import ImageStore
from pipelines.data.stream.row_feed import RowFeed, StreamedBatches, StreamedColumns
from pipelines.data.stream.streamed_rows import RowsOnDisk
from pipelines.errors import InputError

N, SIDE = 60, 8


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    for i in range(N):
        path = tmp_path / "images" / f"class{i % 3}" / f"{i:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8)).save(path)
    return tmp_path / "images"


def loaded(folder, input="stream", **how):
    return load_dataset(str(folder), data_dir=folder.parent / "data", input=input, **how)


def feed_of(*parts, directory, **how):
    messages = []
    how = {"n_workers": 0, **how}
    return RowFeed(parts, directory=str(directory), say=messages.append, **how), messages


def joined(parts):
    return [*itertools.chain.from_iterable(parts)]


def in_order(X, feed):
    parts = np.array_split(np.arange(len(X)), 7)
    return np.concatenate([rows.numpy() for rows in feed.blocks(X, parts)])


def test_rows_and_splits_are_those_in_memory(folder, tmp_path):
    in_memory, on_disk = loaded(folder, "memory"), loaded(folder)
    assert isinstance(on_disk.X_train, RowsOnDisk)
    assert on_disk.X_train.shape == in_memory.X_train.shape
    assert on_disk.image_shape == in_memory.image_shape == (3, SIDE, SIDE)
    feed, _ = feed_of(on_disk.X_train, on_disk.X_test, directory=tmp_path / "cache")
    for name in ("train", "test"):
        X, y = (getattr(on_disk, f"{column}_{name}") for column in "Xy")
        assert (in_order(X, feed) == getattr(in_memory, f"X_{name}")).all()
        assert (y == getattr(in_memory, f"y_{name}")).all()


def test_by_size_images_stay_in_memory_or_on_disk(folder, monkeypatch):
    assert isinstance(loaded(folder, "auto").X_train, np.ndarray)
    import psutil

    small = type(psutil.virtual_memory())(*[N * 3 * SIDE**2] * len(psutil.virtual_memory()))
    monkeypatch.setattr(psutil, "virtual_memory", lambda: small)
    dataset = loaded(folder, "auto")
    assert isinstance(dataset.X_train, RowsOnDisk)
    (line,) = [line for line in dataset.lines if line.startswith("input")]
    assert "larger than half of the memory" in line
    assert "stay on disk" in line


@pytest.mark.parametrize("n_ranks", [2, 3])
def test_ranks_share_out_what_one_process_would_see(folder, tmp_path, n_ranks):
    dataset = loaded(folder)
    rows = {"X": dataset.X_train, "y": np.arange(len(dataset.X_train))}
    feed, _ = feed_of(dataset.X_train, directory=tmp_path / "cache")

    def seen(batch_size, **how):
        batches = StreamedBatches(rows, feed, batch_size=batch_size, seed=1, **how)
        return [batch.columns["y"].tolist() for batch in batches]

    alone = seen(4 * n_ranks)
    of_ranks = [seen(4, rank=rank, n_ranks=n_ranks) for rank in range(n_ranks)]
    assert [joined(parts) for parts in zip(*of_ranks, strict=True)] == alone
    assert joined(seen(4)) == joined(alone)  # the order is not a matter of batches either


def test_another_goes_on_in_the_midst_of_an_epoch(folder, tmp_path):
    dataset = loaded(folder)
    rows = {"X": dataset.X_train, "y": np.arange(len(dataset.X_train))}
    feed, _ = feed_of(dataset.X_train, directory=tmp_path / "cache")
    whole = [
        (batch.position, batch.columns["y"].tolist(), batch.columns["X"].clone())
        for batch in StreamedBatches(rows, feed, batch_size=6, seed=2, epoch=1)
    ]
    position = whole[2][0]
    after = StreamedBatches(rows, feed, batch_size=6, seed=2, epoch=1, position=position)
    for batch, (start, numbers, X) in zip(after, whole[3:], strict=True):
        assert (batch.position, batch.columns["y"].tolist()) == (start, numbers)
        assert (batch.columns["X"] == X).all()


def test_each_image_is_decoded_once_for_all_ranks_of_a_host(folder, tmp_path, monkeypatch):
    reads = Counter()
    read = ImageStore.read

    def counted(store, unit):
        reads[unit] += 1
        return read(store, unit)

    monkeypatch.setattr(ImageStore, "read", counted)
    X = loaded(folder).X_train
    for _ in range(2):
        feed, messages = feed_of(X, directory=tmp_path / "cache")
        first, second = in_order(X, feed), in_order(X, feed)
        assert (first == second).all()
    assert set(reads.values()) == {1}
    assert messages == []


def test_processes_read_ahead(folder, tmp_path):
    X = loaded(folder).X_train
    feed, _ = feed_of(X, directory=tmp_path / "cache", n_workers=2)
    assert (in_order(X, feed) == loaded(folder, "memory").X_train).all()
    feed.close()
    assert (folder_of(X.store, str(tmp_path / "cache")) / "read-").parent.is_dir()


def test_what_was_begun_and_not_ended_is_decoded_anew(folder, tmp_path):
    X, directory = loaded(folder).X_train, str(tmp_path / "cache")
    cache = Cache(X.store, folder_of(X.store, directory))
    unit = int(X.store.units_of(X.slots[:1])[0])
    slot, _ = X.store.read(unit)
    os.pwrite(cache._file, b"\x07" * X.store.width, slot * X.store.width)  # killed before its mark
    assert unit in cache.unread_units(np.arange(N))
    feed, _ = feed_of(X, directory=Path(directory))
    assert (in_order(X, feed) == loaded(folder, "memory").X_train).all()


def test_after_a_crash_of_the_machine_a_part_is_not_believed(folder, tmp_path, monkeypatch):
    X, directory = loaded(folder).X_train, str(tmp_path / "cache")
    feed, _ = feed_of(X, directory=Path(directory))
    in_order(X, feed)
    cache_folder = folder_of(X.store, directory)
    monkeypatch.setattr(caches, "_boot", lambda: "another")
    assert len(Cache(X.store, cache_folder).unread_units(np.arange(N))) == N
    monkeypatch.undo()
    cache = Cache(X.store, cache_folder)
    for unit in cache.unread_units(np.arange(N)):  # those of the test
        cache.write(unit, *X.store.read(unit))
    assert cache.is_whole
    monkeypatch.setattr(caches, "_boot", lambda: "another")
    assert Cache(X.store, cache_folder).is_whole


def test_a_changed_folder_has_another_cache(folder, tmp_path):
    before = loaded(folder).X_train
    path = folder / "class0" / "00.png"
    Image.fromarray(np.zeros((SIDE, SIDE, 3), np.uint8)).save(path)
    after = loaded(folder).X_train
    assert before.store.key != after.store.key
    assert loaded(folder, images=ImageReading(gray=True)).X_train.store.key != after.store.key


def test_without_room_rows_are_read_in_each_epoch(folder, tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=5))
    X = loaded(folder).X_train
    feed, messages = feed_of(X, directory=tmp_path / "cache")
    (line,) = messages
    assert "0.0 GiB free of 0.3: all rows are read and decoded in each epoch" in line
    assert (in_order(X, feed) == loaded(folder, "memory").X_train).all()


def test_a_disk_that_fills_up_is_said_once_and_what_is_there_is_used(folder, tmp_path, monkeypatch):
    write, n_written = Cache.write, 0

    def full(cache, *rows):
        nonlocal n_written
        n_written += 1
        if n_written > 20:
            raise OSError(28, "No space left on device")
        write(cache, *rows)

    monkeypatch.setattr(Cache, "write", full)
    X = loaded(folder).X_train
    feed, messages = feed_of(X, directory=tmp_path / "cache")
    for _ in range(2):
        assert (in_order(X, feed) == loaded(folder, "memory").X_train).all()
    (line,) = messages
    assert "as of a full disk: what it lacks is read in each epoch" in line


def test_a_folder_of_another_user_is_no_cache(folder, tmp_path, monkeypatch):
    X, user = loaded(folder).X_train, os.getuid()
    cache_folder = folder_of(X.store, str(tmp_path))
    cache_folder.mkdir()
    monkeypatch.setattr(os, "getuid", lambda: user + 1)
    with pytest.raises(NoCache, match="another user's"):
        Cache(X.store, cache_folder)


def test_rows_that_are_measured_come_in_blocks(folder, tmp_path):
    dataset = loaded(folder)
    feed, _ = feed_of(dataset.X_test, directory=tmp_path / "cache")
    columns = StreamedColumns({"X": dataset.X_test, "y": dataset.y_test}, feed, "cpu")
    blocks = list(columns.blocks(slice(2, 11), 4))
    assert [len(block["y"]) for block in blocks] == [4, 4, 1]
    whole = np.concatenate([block["X"].numpy() for block in blocks])
    assert (whole == loaded(folder, "memory").X_test[2:11]).all()
    assert list(columns.blocks(slice(3, 3), 4)) == []


@pytest.mark.parametrize("n_workers", [0, 1])
def test_an_image_that_cannot_be_read_is_named(folder, tmp_path, n_workers):
    (folder / "class1" / "01.png").write_bytes(b"no image")
    X = loaded(folder).X_train
    whole = RowsOnDisk(X.store, np.arange(N))
    feed, _ = feed_of(whole, directory=tmp_path / "cache", n_workers=n_workers)
    with pytest.raises(InputError, match=r"class1/01\.png' is not: not a readable image; mend or"):
        in_order(whole, feed)
    feed.close()


def test_an_image_of_another_size_is_named(folder, tmp_path):
    Image.new("RGB", (5, 9)).save(folder / "class1" / "01.png")
    X = loaded(folder).X_train
    whole = RowsOnDisk(X.store, np.arange(N))
    feed, _ = feed_of(whole, directory=tmp_path / "cache")
    with pytest.raises(InputError, match="5 x 9 pixels, and the first image 8 x 8; use image_size"):
        in_order(whole, feed)


def test_what_is_no_folder_is_refused():
    with pytest.raises(InputError, match=r"is for a folder of images or a \.parquet table"):
        load_dataset("digits", input="stream")


def test_files_are_not_skipped_before_they_are_decoded(folder):
    with pytest.raises(InputError, match="unreadable must be refuse for images that stay on disk"):
        loaded(folder, images=ImageReading(unreadable="skip"))
