"""Compilation with numba: the one place that knows it."""

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

_Function = TypeVar("_Function", bound=Callable[..., Any])

# nnan and nsz let reductions vectorise; infinities, which mark the rows that may
# not move, keep their meaning, and no operation is re-associated.
NO_NAN = ("nnan", "nsz", "contract")


def compiled(*fastmath: str) -> Callable[[_Function], _Function]:
    """Compile a function at its first call and keep the result on disk.

    It runs without the interpreter's lock.  numba's cache does not see changes in
    the compiled functions that a function calls: after editing one, remove
    ``__pycache__``.

    Parameters
    ----------
    fastmath : LLVM's names of what floating point may assume; none for IEEE 754
    """
    found: Callable[[_Function], _Function] = njit(
        nogil=True, cache=True, error_model="numpy", fastmath=set(fastmath) or False
    )
    return found
