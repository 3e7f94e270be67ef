"""Read IDX files, the format of MNIST, where torch is not installed.

Format: http://yann.lecun.com/exdb/mnist/ (two zero bytes, a type byte, the number of
dimensions, each length as a big-endian uint32, then the values, big-endian).
"""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import InputError, opt

UNSIGNED_BYTES = 0x08


def read_idx(path: str | Path, ndim: int) -> NDArray[np.uint8]:
    """Read one IDX file of unsigned bytes, gzipped or plain.

    Parameters
    ----------
    path : the file; gzip is recognised by its first bytes, whatever the name
    ndim : the number of dimensions the array must have

    Returns
    -------
    Array of the shape that the file declares, writable.

    Raises
    ------
    InputError
        The file cannot be read, is no IDX file, is cut short or too long, or has another type or
        number of dimensions.
    """
    try:
        content = Path(path).read_bytes()
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
    except EOFError:
        raise _bad(path, "be complete, its gzip stream is truncated") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise _bad(path, f"be sound, its gzip stream is corrupt ({error})") from None
    except OSError as error:
        raise InputError(
            f"{opt('data_dir')} must hold readable files, cannot read '{path}': "
            f"{error.strerror or error}; check the path and its permissions"
        ) from None
    head, start = bytes([0, 0, UNSIGNED_BYTES, ndim]), 4 + 4 * ndim
    if content[:4] != head or len(content) < start:
        raise _bad(
            path,
            f"be an IDX file of unsigned bytes in {ndim} dimensions, which starts with "
            f"{head.hex(' ')} and their lengths, it has {content[:start].hex(' ') or 'nothing'}",
        )
    shape = tuple(int(n) for n in np.frombuffer(content, ">u4", ndim, offset=4))
    if 0 in shape:  # numpy refuses to make room for (0, huge, huge)
        raise _bad(path, f"hold at least one value, it declares shape {shape}")
    declared, found = math.prod(shape), len(content) - start
    if found != declared:
        what = "is truncated after" if found < declared else "holds"
        raise _bad(path, f"hold {declared} bytes of values, it {what} {found}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy()


def _bad(path: str | Path, rule_and_finding: str) -> InputError:
    return InputError(
        f"{opt('data_dir')}: '{path}' must {rule_and_finding}; delete it and fetch it again"
    )
