"""Compilation with numba: the one place that knows it."""

import hashlib
import inspect
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from numba import njit

_Function = TypeVar("_Function", bound=Callable[..., Any])

# nnan and nsz let reductions vectorise; infinities, which mark the rows that may
# not move, keep their meaning, and no operation is re-associated.
NO_NAN = ("nnan", "nsz", "contract")


def compiled(*fastmath: str) -> Callable[[_Function], _Function]:
    """Compile a function at its first call and keep the result on disk.

    It runs without the interpreter's lock, and is compiled anew when any source of its
    folder, or of this one, has changed.

    Parameters
    ----------
    fastmath : LLVM's names of what floating point may assume; none for IEEE 754
    """
    compile_later: Callable[[_Function], _Function] = njit(
        nogil=True, cache=True, error_model="numpy", fastmath=set(fastmath) or False
    )
    return lambda function: cached_with(
        compile_later(function), Path(inspect.getfile(function)).parent, Path(__file__).parent
    )


def cached_with(function: _Function, *folders: Path) -> _Function:
    """What was compiled earlier holds only while no source in ``folders`` has changed.

    numba looks at a function's own file alone, and would go on with what it inlined from
    the others: old results after an update that leaves the one and changes the other.
    """
    file = getattr(getattr(function, "_cache", None), "_cache_file", None)
    if file is not None:  # there is none in numba's simulator, nor where it does not compile
        file._source_stamp = "".join(map(_digest, folders))
    return function


@cache
def _digest(folder: Path) -> str:
    """Of all sources in a folder."""
    content = hashlib.sha256()
    for source in sorted(folder.glob("*.py")):
        content.update(source.name.encode() + b"\0" + source.read_bytes())
    return content.hexdigest()
