"""Data the tests make themselves, small enough to write by hand."""

import gzip

import numpy as np
import pytest

from pipelines.errors import InputError

CODES = {"u1": 0x08, "i1": 0x09, "i2": 0x0B, "i4": 0x0C, "f4": 0x0D, "f8": 0x0E}


def idx_bytes(array):
    header = bytes([0, 0, CODES[array.dtype.str[1:]], array.ndim])
    lengths = b"".join(length.to_bytes(4, "big") for length in array.shape)
    return header + lengths + array.astype(array.dtype.newbyteorder(">")).tobytes()


@pytest.fixture(scope="session")
def to_idx():
    """The bytes of an IDX file that holds the array."""
    return idx_bytes


@pytest.fixture(scope="session")
def write_mnist():
    """Write a tiny data set of 30 training and 20 test images of 4 x 3 pixels as IDX files."""

    def write(folder, zipped=False, skip=(), **arrays):
        folder.mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng(7)
        parts = {
            "train-images-idx3-ubyte": rng.integers(0, 256, (30, 4, 3), np.uint8),
            "train-labels-idx1-ubyte": np.arange(30, dtype=np.uint8) % 10,
            "t10k-images-idx3-ubyte": rng.integers(0, 256, (20, 4, 3), np.uint8),
            "t10k-labels-idx1-ubyte": np.arange(20, dtype=np.uint8) % 10,
        }
        for key, array in arrays.items():  # train_labels=... replaces that part
            stem = next(stem for stem in parts if stem.startswith(key.replace("_", "-")))
            parts[stem] = array
        for stem, array in parts.items():
            if stem in skip:
                continue
            content = idx_bytes(array)
            if zipped:
                (folder / f"{stem}.gz").write_bytes(gzip.compress(content))
            else:
                (folder / stem).write_bytes(content)

    return write


@pytest.fixture(scope="session")
def refused():
    """Call something that must raise InputError with one line holding all the given words."""

    def check(call, *words):
        with pytest.raises(InputError) as caught:
            call()
        message = caught.value.flagged()
        assert message.splitlines() == [message], message
        assert message.startswith("--"), message
        assert "--" not in str(caught.value), "from Python a parameter has no dashes"
        for word in words:
            assert word in message, message
        return message

    return check
