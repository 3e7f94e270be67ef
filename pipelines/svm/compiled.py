"""Compilation with numba, and the cache of what it compiles.

numba's own cache checks only a function's own file, and lets every process compile the same
function; here the digest of all sources in the folders decides, and one process compiles for all.
"""

import fcntl
import hashlib
import inspect
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial, wraps
from pathlib import Path
from pickle import UnpicklingError
from typing import IO, Any, TypeVar

import numpy as np
from numba import njit
from numba.core.event import Event, Listener, register
from numba.core.runtime import rtsys

_Function = TypeVar("_Function", bound=Callable[..., Any])

# nnan and nsz let reductions vectorise. Infinities keep their meaning, as they mark rows that may
# not move, and no operation is re-associated.
NO_NAN = ("nnan", "nsz", "contract")


def integers(first: int, last: int) -> list[int]:
    """Integers from ``first`` to before ``last``, as constants of compiled functions.

    They are numpy integers: for a Python integer that is known at compile time, numba would compile
    the function called with it once more, for that value alone.
    """
    return list(np.arange(first, last))


# Seconds of compiling, or of waiting for it, after which a process says so, once.
SECONDS_OF_SILENCE = 1.0

# How long a process waits for another that compiles, and how often it looks. Not for ever: the
# other may be suspended, and with files on a shared disk its host may have died.
SECONDS_TO_WAIT, SECONDS_BETWEEN_LOOKS = 600.0, 0.05


class _Announcement(Listener):
    """Logs that functions of ours are being compiled, if that takes longer than a second.

    Without handlers, Python's logging writes the line to stderr. A command that shows its own
    progress adds a filter to the logger meanwhile.
    """

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None
        self._depth, self._is_announced = 0, False

    def on_start(self, event: Event) -> None:
        """Start the timer with the outermost function: numba compiles one at a time."""
        if not str(event.data["dispatcher"].py_func.__module__).startswith("pipelines."):
            return
        self._depth += 1
        if self._depth == 1 and not self._is_announced:
            self._timer = threading.Timer(SECONDS_OF_SILENCE, self._say)
            self._timer.daemon = True
            self._timer.start()

    def on_end(self, event: Event) -> None:
        """Stop the timer, so that nothing is said about shorter compilations."""
        if not str(event.data["dispatcher"].py_func.__module__).startswith("pipelines."):
            return
        self._depth -= 1
        if self._depth == 0 and self._timer is not None:
            self._timer.cancel()

    def _say(self) -> None:
        self._is_announced = True
        logging.getLogger(__name__).warning("compiling code for this problem, kept for later runs")


announcement = _Announcement()
register("numba:compile", announcement)


def compiled(*fastmath: str, inner: bool = False) -> Callable[[_Function], _Function]:
    """Compile a function at its first call and keep the result on disk.

    It runs without the interpreter's lock, and is compiled again when any source in its folder,
    or in this one, has changed.

    Parameters
    ----------
    *fastmath : str
        LLVM's names for what floating-point operations may assume; none for IEEE 754.
    inner : bool, default False
        Whether only compiled functions call it: no wrapper for Python is made, and without
        ``fastmath`` of its own it is inlined into its callers.
    """
    compile_later: Callable[[_Function], _Function] = njit(
        nogil=True,
        cache=True,
        error_model="numpy",
        fastmath=set(fastmath) or False,
        no_cpython_wrapper=inner,
        no_cfunc_wrapper=True,
        inline="always" if inner and not fastmath else "never",
    )

    def compile_or_load(function: _Function) -> _Function:
        folders = Path(inspect.getfile(function)).parent, Path(__file__).parent
        dispatcher = compile_later(function)
        cache: Any = getattr(dispatcher, "_cache", None)
        if hasattr(cache, "_load_overload"):
            cache.load_overload = partial(_load, cache)
        return cached_with(dispatcher, *folders)

    return compile_or_load


def _load(cache: Any, signature: Any, target: Any) -> Any:
    """Load a compiled function from disk; None if it is not there.

    numba's own method first imports and registers everything its compiler needs, which takes longer
    than a small search. Running machine code needs only the runtime; compiling refreshes
    the rest by itself.
    """
    rtsys.initialize(target)
    with cache._guard_against_spurious_io_errors():
        return cache._load_overload(signature, target)


def cached_with(function: _Function, *folders: Path, variant: tuple[Any, ...] = ()) -> _Function:
    """Cache a compiled function on disk until a source in ``folders`` changes.

    numba checks only the function's own file. After an update that changes only a file from which
    functions are inlined, it would load code that still holds the old function.

    Parameters
    ----------
    function : numba dispatcher
    *folders : Path
        Folders of the sources it depends on.
    variant : tuple, optional
        Part of the file's name, so that each variant has files of its own.
    """
    cache: Any = getattr(function, "_cache", None)
    file = getattr(cache, "_cache_file", None)
    if file is not None:  # none in numba's simulator, nor with compilation disabled
        cache._guard_against_spurious_io_errors = _goes_on_without_files
        if variant:
            words = re.sub(r"[^\w.]+", "_", "-".join(map(str, variant)))
            name = f"{cache._impl.filename_base}-{words}"
            file = cache._cache_file = type(file)(cache._cache_path, name, None)
        file._source_stamp = "".join(map(_digest, folders))
        # numba compares the version before it unpickles the index, which may refer to names that
        # the sources no longer have.
        file._version += f" {file._source_stamp}"
        _OneCompiler(function, cache)
    return function


# Index files of the functions that this process has compiled, and of those it has loaded.
COMPILED, LOADED = list[Path](), list[Path]()


class _Lock(threading.local):
    file: IO[bytes] | None = None


class _OneCompiler:
    """Lets one process compile a function, and the others load what it has compiled.

    Workers on a host start together, and each would compile the same functions for a minute. A
    process that finds nothing on disk takes a lock, looks again, and holds the lock until its own
    result is on disk. If everything is on disk, no process takes the lock.
    """

    def __init__(self, function: Any, cache: Any) -> None:
        self._compile, self._load = function.compile, cache.load_overload
        self._path = Path(cache._cache_file._index_path)
        self._lock = _Lock()
        function.compile, cache.load_overload = self.compile, self.load

    def compile(self, signature: Any) -> Any:
        """Compile or load, and release the lock in any case."""
        is_outermost = self._lock.file is None  # a function that calls itself comes here twice
        try:
            return self._compile(signature)
        finally:
            if is_outermost and (file := self._lock.file) is not None:
                self._lock.file = None
                _unlock(file)

    def load(self, signature: Any, target: Any) -> Any:
        """Load the function from disk, if need be after another process has compiled it."""
        overload = self._load(signature, target)
        if overload is None and self._lock.file is None:
            self._lock.file = _locked(self._path.with_name(f"{self._path.name}.lock"))
            overload = self._load(signature, target)
        (COMPILED if overload is None else LOADED).append(self._path)
        return overload


def _locked(path: Path) -> IO[bytes] | None:
    """Open and lock a file; the system unlocks it if this process dies.

    Returns None if that is not possible, for example on a file system without locks, or takes too
    long; this process then compiles as well.
    """
    started = time.monotonic()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("ab")
    except OSError:
        return None
    while (waited := time.monotonic() - started) < SECONDS_TO_WAIT:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except BlockingIOError:
            if waited > SECONDS_OF_SILENCE:
                _say_waiting()
            time.sleep(SECONDS_BETWEEN_LOOKS)
        except OSError:
            break
    file.close()
    return None


def _unlock(file: IO[bytes]) -> None:
    with suppress(OSError), file:
        # Not left to close(): a process that was forked meanwhile also has the file open.
        fcntl.flock(file, fcntl.LOCK_UN)


@cache
def _say_waiting() -> None:
    logging.getLogger(__name__).warning("another process compiles the solver: waiting for it")


@contextmanager
def _goes_on_without_files() -> Iterator[None]:
    """Let a fit continue if its code cannot be written to disk or read from it; say so once."""
    try:
        yield
    except (OSError, EOFError, UnpicklingError) as error:
        _say_no_files(str(error))


@cache
def _say_no_files(why: str) -> None:
    # Not the announcement's logger, which is silent while a run shows progress.
    logging.getLogger(f"{__name__}.files").warning(
        "the compiled solver cannot be kept on disk (%s): every process compiles it anew; "
        "set NUMBA_CACHE_DIR to a folder with room",
        why,
    )


def kept_by_arguments(make: Callable[..., _Function]) -> Callable[..., _Function]:
    """Call ``make`` once for each set of arguments, with a file on disk for each.

    numba identifies a compiled function by its code and the values it closes over, not by options
    of the compiler: two kernels that differ only in the registers per thread would share one file,
    and the first would be loaded in place of the second.

    Parameters
    ----------
    make : callable
        Returns a numba dispatcher; called with hashable arguments.
    """
    folders = Path(inspect.getfile(make)).parent, Path(__file__).parent
    signature = inspect.signature(make)

    @cache
    def function_of(*arguments: Any) -> _Function:
        return cached_with(make(*arguments), *folders, variant=arguments)

    @wraps(make)
    def find(*arguments: Any, **keywords: Any) -> _Function:
        bound = signature.bind(*arguments, **keywords)
        bound.apply_defaults()
        return function_of(*bound.arguments.values())

    return find


@cache
def _digest(folder: Path) -> str:
    """SHA-256 of all sources in a folder."""
    content = hashlib.sha256()
    for source in sorted(folder.glob("*.py")):
        content.update(source.name.encode() + b"\0" + source.read_bytes())
    return content.hexdigest()
