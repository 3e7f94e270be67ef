"""The start of the path solver: what it costs, whether it is compiled, compilation meanwhile.

All of it without numba, whose import takes longer than a small search.
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

SWITCH = "PLEASINGLY_COMPILE"  # "now": at once, in the process that first needs it
SOLVER = "pipelines.svm.cpu.walk"  # the module that is imported with it
# What a fit and its scoring take with scikit-learn, at the least: seconds, those of a pair of rows
# and of each of its features. Measured from 200 to 5,000 rows of breast cancer, digits and MNIST.
PLAIN_SECONDS, PAIR_SECONDS, FEATURE_SECONDS = 3e-3, 2e-8, 2e-10
# An iteration of libsvm's, and what each row adds: measured from 300 to 1,500 noisy rows.
ITERATION_SECONDS, ROW_SECONDS = 4e-7, 1e-9
# Until the solver can begin: numba and its own code are loaded from disk, or compiled, of which
# a search of two classes needs 8 CPU seconds, one of hard problems 12.
LOAD_SECONDS, COMPILE_SECONDS = 0.35, 10.0

FOLDER = Path(__file__).parent
SOURCES = FOLDER, FOLDER.parent  # that compiled code is of, see ``svm.compiled``
# Of the functions that Python calls, one of each kind: the walk, pairs of few rows, Newton's.
ENTRIES = "walk.walk_easily", "small_pairs._walk_pairs", "newton._steps"
LOCK = "background.lock"  # of the process that compiles, until it ends
PROGRAM = """
import os, sys
os.nice(19)
sys.path.append({place!r})
from pipelines.warm_up import solve_on_cpu
solve_on_cpu()
"""
_processes = list[subprocess.Popen[bytes]]()  # kept, as one that is forgotten warns that it runs


def svc_seconds(n_rows: int, n_features: int) -> float:
    """CPU seconds that ``SVC`` takes for a fit and its score, at the least."""
    return PLAIN_SECONDS + n_rows**2 * (PAIR_SECONDS + n_features * FEATURE_SECONDS)


def iteration_seconds(n_rows: int) -> float:
    """CPU seconds of an iteration of libsvm's."""
    return ITERATION_SECONDS + n_rows * ROW_SECONDS


def may_wait() -> bool:
    """Whether the path solver is begun only where that pays, and compiled in the background."""
    return os.environ.get(SWITCH) != "now" and "NUMBA_DISABLE_JIT" not in os.environ


def seconds_to_start() -> float:
    """CPU seconds until the path solver can begin in this process."""
    if SOLVER in sys.modules:
        return 0.0
    return LOAD_SECONDS if is_compiled() else LOAD_SECONDS + COMPILE_SECONDS


def is_compiled() -> bool:
    """Whether numba keeps code of these sources on disk; of another CPU's it is not told."""
    stamp = "".join(map(_digest, SOURCES)).encode()
    tag = f"py{sys.version_info[0]}{sys.version_info[1]}"
    return all(
        any(stamp in index.read_bytes() for index in kept_in().glob(f"{name}-*.{tag}*.nbi"))
        for name in ENTRIES
    )


def kept_in() -> Path:
    """The folder in which numba keeps compiled code of ours, as its locators choose it."""
    if folder := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(folder) / folder_name()
    pycache = FOLDER / "__pycache__"
    if os.access(pycache if pycache.exists() else FOLDER, os.W_OK):
        return pycache
    at_home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(at_home) / "numba" / folder_name()


def folder_name() -> str:
    """What numba calls that folder where it is not beside the sources."""
    return f"{FOLDER.name}_{hashlib.sha1(str(FOLDER).encode()).hexdigest()}"


@cache
def _digest(folder: Path) -> str:
    """As ``svm.compiled`` makes it, and numba's index has it."""
    content = hashlib.sha256()
    for source in sorted(folder.glob("*.py")):
        content.update(source.name.encode() + b"\0" + source.read_bytes())
    return content.hexdigest()


@cache
def compile_meanwhile() -> None:
    """Compile in a process of low priority that outlives this; say so, once.

    One at a time where compiled code is kept: the process has a lock until it ends. Where none can
    be begun fits go on without.
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
                pass_fds=(lock.fileno(),),  # the lock is the process's, too
                process_group=0,  # Ctrl-C is not for it; its niceness is among this session's
            )
            _processes.append(process)
            lock.write(f"{process.pid} {gethostname()}".encode())
    except BlockingIOError:
        pass  # another does it
    except (OSError, TypeError):  # no place, no lock, or an interpreter without a file
        return
    logging.getLogger(__name__).warning(
        "SVC itself makes these fits; the path solver is compiled in the background, for the next"
    )


@cache
def compile_here() -> None:
    """End what is compiled in the background on this host: it would be waited for, and is slow.

    Where all cores are busy its priority leaves it next to nothing. What it has compiled is kept.
    """
    if not may_wait():
        return
    with suppress(OSError, ValueError), (kept_in() / LOCK).open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:  # it is at work, so that the number is still its own
            number, host = lock.read().decode().split()
            if host == gethostname():
                os.kill(int(number), SIGTERM)
