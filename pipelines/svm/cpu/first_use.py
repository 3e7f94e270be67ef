"""How long the path solver takes to start, whether it is compiled, and background compilation.

Nothing here imports numba, which takes longer than a small search.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from signal import SIGTERM
from socket import gethostname

# An environment variable; "now" compiles at once, in the process that first needs the solver.
SWITCH = "PLEASINGLY_COMPILE"
SOLVER = "pipelines.svm.cpu.walk"  # imported by a process that has started the solver
# The least that a fit with scikit-learn and its scoring take: seconds for the fit itself, for each
# pair of rows, and for each feature of a pair. Measured from 200 to 5,000 rows of breast cancer,
# digits, MNIST.
PLAIN_SECONDS, PAIR_SECONDS, FEATURE_SECONDS = 3e-3, 2e-8, 2e-10
# An iteration of LIBSVM, and what each row adds: measured from 300 to 1,500 noisy rows.
ITERATION_SECONDS, ROW_SECONDS = 4e-7, 1e-9
# Seconds until the solver can start: numba and the solver's code are loaded from disk, or compiled.
# A search of two classes needs 8 CPU seconds of compilation, one of hard problems 12.
LOAD_SECONDS, COMPILE_SECONDS = 0.35, 10.0

FOLDER = Path(__file__).parent
SOURCES = FOLDER, FOLDER.parent  # compiled code depends on these folders, see ``svm.compiled``
# If these are compiled, so is the rest: the walk, pairs of few rows, Newton's method.
ENTRIES = "walk.walk_easily", "small_pairs._walk_pairs", "newton._steps"
LOCK = "background.lock"  # held by the process that compiles until it ends
PROGRAM = """
import os, sys
os.nice(19)
sys.path.append({place!r})
from pipelines.warm_up import solve_on_cpu
solve_on_cpu()
"""
# Kept, as a Popen object that is collected while its process runs warns.
_processes = list[subprocess.Popen[bytes]]()


def svc_seconds(n_rows: int, n_features: int) -> float:
    """The least CPU seconds that ``SVC`` takes for a fit and its scoring."""
    return PLAIN_SECONDS + n_rows**2 * (PAIR_SECONDS + n_features * FEATURE_SECONDS)


def iteration_seconds(n_rows: int) -> float:
    """CPU seconds of one LIBSVM iteration on a problem with so many rows."""
    return ITERATION_SECONDS + n_rows * ROW_SECONDS


def may_wait() -> bool:
    """Whether small fits may be left to ``SVC`` while the solver is compiled in the background."""
    return os.environ.get(SWITCH) != "now" and "NUMBA_DISABLE_JIT" not in os.environ


def seconds_to_start() -> float:
    """CPU seconds until the path solver can start in this process."""
    if SOLVER in sys.modules:
        return 0.0
    return LOAD_SECONDS if is_compiled() else LOAD_SECONDS + COMPILE_SECONDS


def is_compiled() -> bool:
    """Whether code of these sources is on disk; code for another type of CPU also counts."""
    stamp = "".join(map(_digest, SOURCES)).encode()
    tag = f"py{sys.version_info[0]}{sys.version_info[1]}"
    return all(
        any(stamp in index.read_bytes() for index in kept_in().glob(f"{name}-*.{tag}*.nbi"))
        for name in ENTRIES
    )


def kept_in() -> Path:
    """The folder in which numba keeps our compiled code, chosen by the rules of its locators."""
    if folder := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(folder) / folder_name()
    pycache = FOLDER / "__pycache__"
    if os.access(pycache if pycache.exists() else FOLDER, os.W_OK):
        return pycache
    at_home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(at_home) / "numba" / folder_name()


def folder_name() -> str:
    """The name that numba gives this folder where it is not beside the sources."""
    return f"{FOLDER.name}_{hashlib.sha1(str(FOLDER).encode()).hexdigest()}"


@cache
def _digest(folder: Path) -> str:
    """The same digest as in ``svm.compiled``, which stands in numba's index files."""
    content = hashlib.sha256()
    for source in sorted(folder.glob("*.py")):
        content.update(source.name.encode() + b"\0" + source.read_bytes())
    return content.hexdigest()


@cache
def compile_meanwhile() -> None:
    """Compile the solver in a process of low priority that outlives this one; say so once.

    One such process runs at a time for each folder of compiled code: it holds a lock until it
    ends. If it cannot be started, fits go on without it.
    """
    if not may_wait() or is_compiled():
        return
    try:
        kept_in().mkdir(parents=True, exist_ok=True)
        with (kept_in() / LOCK).open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            lock.truncate(0)
            program = PROGRAM.format(place=str(FOLDER.parents[2]))
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", program],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=os.environ | {SWITCH: "now"},
                pass_fds=(lock.fileno(),),  # the process shares the lock
                process_group=0,  # Ctrl-C is not for it; its niceness is among this session's
            )
            _processes.append(process)
            lock.write(f"{process.pid} {gethostname()}".encode())
    except BlockingIOError:
        pass  # another does it
    except (OSError, TypeError):  # no folder to write to, no locks, or no path of the interpreter
        return
    logging.getLogger(__name__).warning(
        "SVC itself makes these fits; the path solver is compiled in the background, for the next"
    )


@cache
def compile_here() -> None:
    """End a background compilation on this host, as this process now has to compile itself.

    This process would wait for the other's lock, and with all cores busy the other's low priority
    leaves it next to no time. Whatever the other has compiled so far stays on disk.
    """
    if not may_wait():
        return
    with suppress(OSError, ValueError), (kept_in() / LOCK).open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:  # the lock is held, so the process of this number still runs
            number, host = lock.read().decode().split()
            if host == gethostname():
                os.kill(int(number), SIGTERM)
