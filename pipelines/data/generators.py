"""The global generators of random numbers, numpy's, Python's and torch's, which a process shares.

An estimator without ``random_state`` may draw from them. They are seeded before each fit, by
what is fitted, so that it draws the same wherever it is fitted and whatever was fitted before:
but for fits on threads of one process, which draw from the same generators in any order.
"""

from __future__ import annotations

import ctypes
import hashlib
import random
import sys
import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

BYTES_OF_TWISTER = 625 * 4


class Watch:
    """Notes whether something draws from the generators that were seeded, numpy's or torch's.

    Not of Python's: Dask draws from that.

    Attributes
    ----------
    state : of numpy's and torch's after they were last seeded; empty before
    drawn : bool, whether they were in another state later
    """

    state: tuple[bytes, ...] = ()
    drawn = False

    def look(self) -> None:
        """Note whether anything has drawn from them; torch may have been imported since."""
        if self.state:
            of_numpy, of_torch = _bytes_watched()
            torch_drew = self.state[1] not in (_bytes_of(None), of_torch)
            self.drawn |= self.state[0] != of_numpy or torch_drew


watch = Watch()
lock = threading.RLock()  # of who seeds or draws: torch has one generator for all threads
_states_before: dict[
    int, Any
] = {}  # threads within ``generators_kept``, and the states before the first of them


def seed_generators(*key: Hashable) -> None:
    """Seed the global generators by a place; equal places, equal draws in every process.

    Parameters
    ----------
    place : numbers, texts, and tuples of them
    """
    digest = hashlib.sha256(repr(key).encode()).digest()
    number = int.from_bytes(digest[:4], "little")
    with lock:  # or threads that seed look like one that draws
        watch.look()
        random.seed(digest)
        np.random.seed(number)  # noqa: NPY002
        if torch := _torch():
            torch.manual_seed(number)
        watch.state = _bytes_watched()


def state_of_generators() -> str:
    """Return a text that tells the states of the global generators from others."""
    return hashlib.sha256(b"".join(_bytes_watched())).hexdigest()


@contextmanager
def generators_kept() -> Iterator[None]:
    """Leave the global generators, after the block, as they were before it."""
    thread_id = threading.get_ident()
    with lock:
        is_outer, states = thread_id not in _states_before, _states()
        if is_outer:
            _states_before[thread_id] = next(iter(_states_before.values()), states)
            states = _states_before[thread_id]
        watch.state, watch.drawn = (), False
    try:
        yield
    finally:
        with lock:
            watch.look()
            watch.state = ()
            if is_outer:
                del _states_before[thread_id]
            if not is_outer or not _states_before:  # else others are still at it
                _restore(*states)


@contextmanager
def generators_restored() -> Iterator[None]:
    """Leave the global generators, after the block, as they were; for one thread alone."""
    states = _states()
    try:
        yield
    finally:
        _restore(*states)


def _restore(of_python: Any, of_numpy: Any, of_torch: Any) -> None:
    random.setstate(of_python)
    np.random.set_state(of_numpy)  # noqa: NPY002
    if of_torch is not None:
        _torch().set_rng_state(of_torch[0])
        if of_torch[1]:
            _torch().cuda.set_rng_state_all(of_torch[1])


def _states() -> tuple[Any, Any, Any]:
    """Return the states of Python's, numpy's and torch's; None where torch is not imported."""
    return random.getstate(), np.random.get_state(), _state_of_torch()  # noqa: NPY002


def _state_of_torch() -> Any:
    torch = _torch()
    if not torch:
        return None
    of_gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    return torch.get_rng_state(), of_gpus


def _bytes_watched() -> tuple[bytes, bytes]:
    """What tells the states of numpy's and torch's from others, before and after every fit.

    Numpy takes a tenth of a millisecond to copy the state of its Mersenne twister, 624 words and
    the place among them; they are read where they lie.
    """
    generator = np.random.get_bit_generator()  # type: ignore[attr-defined]  # it is public
    if type(generator) is np.random.MT19937:
        of_numpy = ctypes.string_at(generator.ctypes.state_address, BYTES_OF_TWISTER)
    else:
        of_numpy = _bytes_of(np.random.get_state())  # noqa: NPY002
    return of_numpy, _bytes_of(_state_of_torch())


def _bytes_of(state: Any) -> bytes:
    """Return what tells a state from others, arrays and tensors in it whole."""
    if isinstance(state, tuple | list):
        return b"".join(map(_bytes_of, state))
    if hasattr(state, "cpu"):
        state = state.cpu().numpy()
    return state.tobytes() if hasattr(state, "tobytes") else repr(state).encode()


def _torch() -> Any:
    """Return torch where it is imported, whole: half of it crashes, which a thread imports."""
    torch = sys.modules.get("torch")
    is_loading = getattr(getattr(torch, "__spec__", None), "_initializing", False)
    return torch if hasattr(torch, "manual_seed") and not is_loading else None
