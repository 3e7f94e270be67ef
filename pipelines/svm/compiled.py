"""Compilation with numba: the one place that knows it."""

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

# nnan and nsz let reductions vectorise; infinities, which mark the rows that may
# not move, keep their meaning, and no operation is re-associated.
NO_NAN = ("nnan", "nsz", "contract")


def integers(first: int, last: int) -> list[int]:
    """Return names for the integers from ``first`` to before ``last``, for compiled functions.

    They are numpy's: a function that is given one of Python's that is known beforehand is
    compiled once more, for that alone.
    """
    return list(np.arange(first, last))


# Seconds of compiling, or of waiting for it, after which it is said, once in a process.
SECONDS_OF_SILENCE = 1.0

# For how long a process waits for another that compiles: that may be stopped, and the host of one
# that shares the files may be gone.
SECONDS_TO_WAIT, SECONDS_BETWEEN_LOOKS = 600.0, 0.05


class _Announcement(Listener):
    """Logs that functions of ours are compiled, where that takes longer than a second.

    Without handlers of its user's, Python's logging writes the line to stderr. Who show
    progress of their own add a filter to the logger meanwhile.
    """

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None
        self._depth, self._is_announced = 0, False

    def on_start(self, event: Event) -> None:
        """Wait for a second from the outermost function on: numba compiles one at a time."""
        if not str(event.data["dispatcher"].py_func.__module__).startswith("pipelines."):
            return
        self._depth += 1
        if self._depth == 1 and not self._is_announced:
            self._timer = threading.Timer(SECONDS_OF_SILENCE, self._say)
            self._timer.daemon = True
            self._timer.start()

    def on_end(self, event: Event) -> None:
        """Say nothing of what took less."""
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

    It runs without the interpreter's lock, and is compiled anew when any source of its
    folder, or of this one, has changed.

    Parameters
    ----------
    fastmath : LLVM's names of what floating point may assume; none for IEEE 754
    inner : only compiled functions call it, so nothing is made by which Python could; without
        ``fastmath`` of its own, its lines become those of its callers
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
    """Load a compiled function from disk; None where it is not there.

    numba's own method first imports and registers all that a compiler needs, which takes longer
    than a small search. Machine code needs memory alone; who compiles refreshes all that by itself.
    """
    rtsys.initialize(target)
    with cache._guard_against_spurious_io_errors():
        return cache._load_overload(signature, target)


def cached_with(function: _Function, *folders: Path, variant: tuple[Any, ...] = ()) -> _Function:
    """Cache a compiled function on disk until a source in ``folders`` changes.

    numba looks at a function's own file alone, and would go on with what it inlined from
    the others: old results after an update that leaves the one and changes the other.

    variant : with files of their own for each
    """
    cache: Any = getattr(function, "_cache", None)
    file = getattr(cache, "_cache_file", None)
    if file is not None:  # there is none in numba's simulator, nor where it does not compile
        cache._guard_against_spurious_io_errors = _goes_on_without_files
        if variant:
            words = re.sub(r"[^\w.]+", "_", "-".join(map(str, variant)))
            name = f"{cache._impl.filename_base}-{words}"
            file = cache._cache_file = type(file)(cache._cache_path, name, None)
        file._source_stamp = "".join(map(_digest, folders))
        # Looked at before the rest is read, which may name what the sources no longer have.
        file._version += f" {file._source_stamp}"
        _OneCompiler(function, cache)
    return function


# The indices of what this process has compiled, and of what it has loaded from disk.
COMPILED, LOADED = list[Path](), list[Path]()


class _Lock(threading.local):
    file: IO[bytes] | None = None


class _OneCompiler:
    """Lets one process compile a function, and has the others load what that keeps.

    Workers of one host begin together: each would compile the same, for a minute. Who finds
    that nothing is kept takes a lock and looks again, and has it until its own is kept. Where
    all is kept nobody takes it.
    """

    def __init__(self, function: Any, cache: Any) -> None:
        self._compile, self._load = function.compile, cache.load_overload
        self._path = Path(cache._cache_file._index_path)
        self._lock = _Lock()
        function.compile, cache.load_overload = self.compile, self.load

    def compile(self, signature: Any) -> Any:
        """Compile or load, and give up the lock whatever became of it."""
        is_outermost = self._lock.file is None  # of a function that calls itself
        try:
            return self._compile(signature)
        finally:
            if is_outermost and (file := self._lock.file) is not None:
                self._lock.file = None
                _unlock(file)

    def load(self, signature: Any, target: Any) -> Any:
        """Load what is kept, if need be when another process has compiled it."""
        overload = self._load(signature, target)
        if overload is None and self._lock.file is None:
            self._lock.file = _locked(self._path.with_name(f"{self._path.name}.lock"))
            overload = self._load(signature, target)
        (COMPILED if overload is None else LOADED).append(self._path)
        return overload


def _locked(path: Path) -> IO[bytes] | None:
    """Open and lock a file, which the system unlocks where this process dies.

    None where that cannot be, as on a file system without locks, or takes too long.
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
        fcntl.flock(file, fcntl.LOCK_UN)  # a process that was forked meanwhile has it open, too


@cache
def _say_waiting() -> None:
    logging.getLogger(__name__).warning("another process compiles the solver: waiting for it")


@contextmanager
def _goes_on_without_files() -> Iterator[None]:
    """Let a fit go on where its code cannot be kept, or was kept badly; say so once."""
    try:
        yield
    except (OSError, EOFError, UnpicklingError) as error:
        _say_no_files(str(error))


@cache
def _say_no_files(why: str) -> None:
    # Not the logger of the announcement, which is silent where a run shows progress.
    logging.getLogger(f"{__name__}.files").warning(
        "the compiled solver cannot be kept on disk (%s): every process compiles it anew; "
        "set NUMBA_CACHE_DIR to a folder with room",
        why,
    )


def kept_by_arguments(make: Callable[..., _Function]) -> Callable[..., _Function]:
    """Call ``make`` once for each set of arguments, and keep on disk what it compiles apart.

    numba tells what it keeps by the function's code and what that closes over. Options of
    the compiler are not among it: two kernels that differ in the registers a thread may have
    would share one file, and the second to be asked for would be the first.
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
    """Return a digest of all sources in a folder."""
    content = hashlib.sha256()
    for source in sorted(folder.glob("*.py")):
        content.update(source.name.encode() + b"\0" + source.read_bytes())
    return content.hexdigest()
