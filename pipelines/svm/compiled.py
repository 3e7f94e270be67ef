"""Compilation with numba: the one place that knows it."""

import hashlib
import inspect
import re
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import Any, TypeVar

from numba import njit

_Function = TypeVar("_Function", bound=Callable[..., Any])

# nnan and nsz let reductions vectorise; infinities, which mark the rows that may
# not move, keep their meaning, and no operation is re-associated.
NO_NAN = ("nnan", "nsz", "contract")


def compiled(*fastmath: str, inner: bool = False) -> Callable[[_Function], _Function]:
    """Compile a function at its first call and keep the result on disk.

    It runs without the interpreter's lock, and is compiled anew when any source of its
    folder, or of this one, has changed.

    Parameters
    ----------
    fastmath : LLVM's names of what floating point may assume; none for IEEE 754
    inner : only compiled functions call it, so nothing is made by which Python could
    """
    compile_later: Callable[[_Function], _Function] = njit(
        nogil=True, cache=True, error_model="numpy", fastmath=set(fastmath) or False,
        no_cpython_wrapper=inner, no_cfunc_wrapper=True,
    )  # fmt: skip
    return lambda function: cached_with(
        compile_later(function), Path(inspect.getfile(function)).parent, Path(__file__).parent
    )


def cached_with(function: _Function, *folders: Path, variant: tuple[Any, ...] = ()) -> _Function:
    """Cache a compiled function on disk until a source in ``folders`` changes.

    numba looks at a function's own file alone, and would go on with what it inlined from
    the others: old results after an update that leaves the one and changes the other.

    variant : with files of their own for each
    """
    cache: Any = getattr(function, "_cache", None)
    file = getattr(cache, "_cache_file", None)
    if file is not None:  # there is none in numba's simulator, nor where it does not compile
        if variant:
            words = re.sub(r"[^\w.]+", "_", "-".join(map(str, variant)))
            name = f"{cache._impl.filename_base}-{words}"
            file = cache._cache_file = type(file)(cache._cache_path, name, None)
        file._source_stamp = "".join(map(_digest, folders))
        # Looked at before the rest is read, which may name what the sources no longer have.
        file._version += f" {file._source_stamp}"
    return function


def kept_by_arguments(make: Callable[..., _Function]) -> Callable[..., _Function]:
    """Call ``make`` once for each set of arguments, and keep on disk what it compiles apart.

    numba tells what it keeps by the function's code and what that closes over. Options of
    the compiler are not among it: two kernels that differ in the registers a thread may have
    would share one file, and the second to be asked for would be the first.
    """
    folders = Path(inspect.getfile(make)).parent, Path(__file__).parent
    signature = inspect.signature(make)

    @cache
    def made(*arguments: Any) -> _Function:
        return cached_with(make(*arguments), *folders, variant=arguments)

    @wraps(make)
    def find(*arguments: Any, **named: Any) -> _Function:
        bound = signature.bind(*arguments, **named)
        bound.apply_defaults()
        return made(*bound.arguments.values())

    return find


@cache
def _digest(folder: Path) -> str:
    """Return a digest of all sources in a folder."""
    content = hashlib.sha256()
    for source in sorted(folder.glob("*.py")):
        content.update(source.name.encode() + b"\0" + source.read_bytes())
    return content.hexdigest()
