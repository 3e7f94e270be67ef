"""Read IDX files, the format of MNIST.

Format: http://yann.lecun.com/exdb/mnist/ (two zero bytes, a type byte, the number of
dimensions, each length as a big-endian uint32, then the values, big-endian).
"""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import InputError, opt

TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(path: str | Path, ndim: int | None = None) -> NDArray[Any]:
    """Read one IDX file, gzipped or plain.

    Parameters
    ----------
    path : the file; gzip is recognised by its first bytes, whatever the name
    ndim : the number of dimensions the array must have; None takes any from 1 to 32

    Returns
    -------
    Array of the shape and type the file declares, in native byte order, writable.

    Raises
    ------
    InputError
        The file cannot be read, is no IDX file, is cut short or too long, or has another
        number of dimensions.
    """
    path = Path(path)
    content = _content(path)
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in TYPES:
        raise _bad(path, f"be an IDX file, it starts with {content[:4].hex(' ') or 'nothing'}")
    found = content[3]
    if not 1 <= found <= 32 or (ndim is not None and found != ndim):
        raise _bad(path, f"have {ndim or '1 to 32'} dimensions, it has {found}")
    start = 4 + 4 * found
    if len(content) < start:
        raise _bad(path, f"have a header of {start} bytes, it is truncated after {len(content)}")
    shape = tuple(int(n) for n in np.frombuffer(content, ">u4", found, offset=4))
    dtype = np.dtype(TYPES[content[2]])
    declared, found_bytes = math.prod(shape) * dtype.itemsize, len(content) - start
    if found_bytes < declared:
        raise _bad(path, f"hold {declared} bytes of values, it is truncated after {found_bytes}")
    if found_bytes > declared:
        more = found_bytes - declared
        raise _bad(path, f"end after {declared} bytes of values, {more} bytes follow")
    if 0 in shape:  # numpy refuses to make room for (0, huge, huge)
        raise _bad(path, f"hold at least one value, it declares shape {shape}")
    values = np.frombuffer(content, dtype, offset=start)
    return values.reshape(shape).astype(dtype.newbyteorder("="))


def _content(path: Path) -> bytes:
    """Return the bytes of an IDX file, decompressed where it is gzipped."""
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    except EOFError:
        raise _bad(path, "be complete, its gzip stream is truncated") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise _bad(path, f"be sound, its gzip stream is corrupt ({error})") from None
    except OSError as error:
        raise InputError(
            f"{opt('data_dir')} must hold readable files, cannot read '{path}': "
            f"{error.strerror or error}; check the path and its permissions"
        ) from None


def _bad(path: Path, rule_and_finding: str) -> InputError:
    return InputError(
        f"{opt('data_dir')}: '{path}' must {rule_and_finding}; delete it and fetch it again"
    )
