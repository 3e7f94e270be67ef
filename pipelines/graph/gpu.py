"""cupy: the one file of PageRank that knows it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def array_libraries() -> tuple[Any, Any]:
    """cupy, and its counterpart of scipy.sparse."""
    import cupy
    from cupyx.scipy import sparse

    return cupy, sparse


def to_gpu(values: NDArray[Any]) -> Any:
    """An array in the memory of the GPU."""
    import cupy

    return cupy.asarray(values)


def to_host(values: Any) -> NDArray[Any]:
    """An array of the GPU in this process's memory."""
    import cupy

    return np.asarray(cupy.asnumpy(values))
