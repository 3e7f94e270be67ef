import gzip

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pipelines.data.idx import read_idx

DTYPES = ["u1", "i1", "i2", "i4", "f4", "f8"]
EXAMPLE = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)


@settings(deadline=None)
@given(
    array=st.sampled_from(DTYPES).flatmap(
        lambda dtype: hnp.arrays(dtype, hnp.array_shapes(max_dims=4, max_side=5))
    ),
    zipped=st.booleans(),
)
def test_what_is_written_is_read(array, zipped, to_idx, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "round-trip.gz"  # the name tells nothing
    content = to_idx(array)
    path.write_bytes(gzip.compress(content, 1) if zipped else content)
    found = read_idx(path)
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype
    assert found.dtype.isnative
    assert found.flags.writeable
    assert found.flags.c_contiguous


def test_bytes_of_the_specification(tmp_path):
    path = tmp_path / "hand-made"
    path.write_bytes(bytes([0, 0, 0x0B, 2, 0, 0, 0, 1, 0, 0, 0, 2, 1, 0, 255, 255]))
    np.testing.assert_array_equal(read_idx(path), np.array([[256, -1]], np.int16))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda b: b[:-1], ["truncated", "24 bytes"]),
        (lambda b: b[:9], ["truncated", "header"]),
        (lambda b: b[:3], ["IDX"]),
        (lambda b: b"", ["IDX", "nothing"]),
        (lambda b: b + b"\0\0", ["2 bytes follow"]),
        (lambda b: b"\x89PNG" + b, ["IDX", "89 50 4e 47"]),
        (lambda b: b"\0\0\x07\x03" + b[4:], ["IDX", "00 00 07 03"]),
        (lambda b: b"\0\0\x08\x00" + b[4:], ["dimensions", "it has 0"]),
        (lambda b: b"\0\0\x08\xff" + b[4:], ["dimensions", "it has 255"]),
        (lambda b: b[:4] + b"\xff" * 12 + b[16:], ["truncated"]),
        (lambda b: b[:4] + b"\0" * 4 + b"\xff" * 8, ["at least one value"]),
    ],
)
@pytest.mark.parametrize("zipped", [False, True])
def test_damaged_file(damage, words, zipped, to_idx, tmp_path, refused):
    path = tmp_path / "damaged-idx3-ubyte"
    content = damage(to_idx(EXAMPLE))
    path.write_bytes(gzip.compress(content) if zipped else content)
    refused(lambda: read_idx(path), "--data-dir", str(path), *words)


@pytest.mark.parametrize(
    ("damage", "word"),
    [
        (lambda b: b[:-12], "truncated"),
        (lambda b: b[:15] + b"\xff\xff\xff" + b[18:], "corrupt"),
        (lambda b: b[:-8] + b"\1\2\3\4" + b[-4:], "corrupt"),  # the check sum
        (lambda b: b + b"more", "corrupt"),
    ],
)
def test_damaged_gzip(damage, word, to_idx, tmp_path, refused):
    path = tmp_path / "damaged.gz"
    path.write_bytes(damage(gzip.compress(to_idx(EXAMPLE))))
    refused(lambda: read_idx(path), str(path), "gzip", word)


def test_wrong_number_of_dimensions(to_idx, tmp_path, refused):
    path = tmp_path / "labels"
    path.write_bytes(to_idx(EXAMPLE))
    assert read_idx(path, ndim=3).ndim == 3
    refused(lambda: read_idx(path, ndim=1), str(path), "1 dimensions", "it has 3")


def test_missing_file_and_folder(tmp_path, refused):
    refused(lambda: read_idx(tmp_path / "none"), "none", "No such file")
    refused(lambda: read_idx(tmp_path), str(tmp_path), "directory")
