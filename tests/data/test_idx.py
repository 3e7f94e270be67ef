import gzip

import hypothesis
import numpy as np
import pytest
from hypothesis import settings
from hypothesis.extra import numpy as hnp

from pipelines.data.images import read_idx

EXAMPLE = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)


@settings(deadline=None)
@hypothesis.given(array=hnp.arrays("u1", hnp.array_shapes(max_dims=4, max_side=5)))
def test_what_is_written_is_read(array, to_idx, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "round-trip.gz"  # the name tells nothing
    for content in (to_idx(array), gzip.compress(to_idx(array), 1)):
        path.write_bytes(content)
        result = read_idx(path, array.ndim)
        np.testing.assert_array_equal(result, array)
        assert result.dtype == np.uint8
        assert result.flags.writeable


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda b: b[:-1], ["24 bytes", "it holds 23"]),
        (lambda b: b[:9], ["IDX", "00 00 08 03"]),
        (lambda b: b"", ["IDX", "nothing"]),
        (lambda b: b + b"\0\0", ["24 bytes", "it holds 26"]),
        (lambda b: b"\x89PNG" + b, ["IDX", "89 50 4e 47"]),
        (lambda b: b"\0\0\x0d\x03" + b[4:], ["unsigned bytes", "00 00 0d 03"]),
        (lambda b: b"\0\0\x08\xff" + b[4:], ["3 dimensions", "00 00 08 ff"]),
        (lambda b: b[:4] + b"\xff" * 12 + b[16:], ["it holds 24"]),
        (lambda b: b[:4] + b"\0" * 4 + b"\xff" * 8, ["it holds 0"]),
    ],
)
@pytest.mark.parametrize("zipped", [False, True])
def test_damaged_file(damage, words, zipped, to_idx, tmp_path, refused):
    path = tmp_path / "damaged-idx3-ubyte"
    content = damage(to_idx(EXAMPLE))
    path.write_bytes(gzip.compress(content) if zipped else content)
    refused(lambda: read_idx(path, 3), f"--data-dir: '{path}' must ", *words)


@pytest.mark.parametrize(
    "damage",
    [
        lambda b: b[:-12],
        lambda b: b[:15] + b"\xff\xff\xff" + b[18:],
        lambda b: b[:-8] + b"\1\2\3\4" + b[-4:],  # the check sum
        lambda b: b + b"more",
    ],
)
def test_damaged_gzip(damage, to_idx, tmp_path, refused):
    path = tmp_path / "damaged.gz"
    path.write_bytes(damage(gzip.compress(to_idx(EXAMPLE))))
    refused(lambda: read_idx(path, 3), str(path), "gzip")


def test_missing_file_and_folder(tmp_path, refused):
    refused(lambda: read_idx(tmp_path / "none", 3), "none", "No such file")
    refused(lambda: read_idx(tmp_path, 3), str(tmp_path), "directory")
