"""The global random number generators of numpy, Python and torch, which a process shares.

An estimator without ``random_state`` may draw from them. They are seeded before each fit, by
what is fitted, so that a fit draws the same numbers wherever it runs and whatever ran before.
Fits on several threads of one process are the exception: they draw from the same generators in
any order.
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

BYTES_OF_TWISTER = 625 * 4  # state of numpy's default generator, see ``_bytes_watched``


class Watch:
    """Records whether anything draws from the seeded generators of numpy or torch.

    Python's generator is not watched, as Dask draws from it.

    Attributes
    ----------
    state : tuple of bytes
        States of numpy and torch after they were last seeded; empty before that.
    drawn : bool
        Whether a later state differed from them.
    """

    state: tuple[bytes, ...] = ()
    drawn = False

    def look(self) -> None:
        """Compare the states with those after seeding; torch may have been imported since."""
        if self.state:
            of_numpy, of_torch = _bytes_watched()
            torch_drew = self.state[1] not in (_bytes_of(None), of_torch)
            self.drawn |= self.state[0] != of_numpy or torch_drew


watch = Watch()
lock = threading.RLock()  # held while seeding or drawing: torch has one generator for all threads
_states_before: dict[
    int, Any
] = {}  # by thread within ``generators_kept``: the states before the first of them


def seed_generators(*key: Hashable) -> None:
    """Seed the global generators by a key: equal keys give equal draws in every process.

    Parameters
    ----------
    *key : int, str, or tuples of them
    """
    digest = hashlib.sha256(repr(key).encode()).digest()
    number = int.from_bytes(digest[:4], "little")
    with lock:  # else seeding by another thread would look like a draw
        watch.look()
        random.seed(digest)
        np.random.seed(number)  # noqa: NPY002
        if torch := _torch():
            torch.manual_seed(number)
        watch.state = _bytes_watched()


def state_of_generators() -> str:
    """A digest of the states of the global generators of numpy and torch."""
    return hashlib.sha256(b"".join(_bytes_watched())).hexdigest()


@contextmanager
def generators_kept() -> Iterator[None]:
    """Restore the global generators after the block; several threads may be within such blocks.

    The last of them to leave restores the states from before the first one entered.
    """
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
            if not is_outer or not _states_before:  # else other threads are still drawing
                _restore(*states)


@contextmanager
def generators_restored() -> Iterator[None]:
    """Restore the global generators after the block; for a single thread."""
    states = _states()
    try:
        yield
    finally:
        _restore(*states)


def _restore(of_python: Any, of_numpy: Any, of_torch: Any) -> None:
    """Set the states that ``_states`` returned."""
    random.setstate(of_python)
    np.random.set_state(of_numpy)  # noqa: NPY002
    if of_torch is not None:
        _torch().set_rng_state(of_torch[0])
        if of_torch[1]:
            _torch().cuda.set_rng_state_all(of_torch[1])


def _states() -> tuple[Any, Any, Any]:
    """The states of Python's, numpy's and torch's generators; None where torch is not imported."""
    return random.getstate(), np.random.get_state(), _state_of_torch()  # noqa: NPY002


def _state_of_torch() -> Any:
    """The states of torch's generators on the CPU and on all GPUs."""
    torch = _torch()
    if not torch:
        return None
    of_gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    return torch.get_rng_state(), of_gpus


def _bytes_watched() -> tuple[bytes, bytes]:
    """The states of numpy's and torch's generators as bytes, read before and after every fit.

    Numpy takes a tenth of a millisecond to copy the state of its Mersenne twister, 624 words and
    the position among them; they are read from its memory instead.
    """
    generator = np.random.get_bit_generator()  # type: ignore[attr-defined]  # it is public
    if type(generator) is np.random.MT19937:
        of_numpy = ctypes.string_at(generator.ctypes.state_address, BYTES_OF_TWISTER)
    else:
        of_numpy = _bytes_of(np.random.get_state())  # noqa: NPY002
    return of_numpy, _bytes_of(_state_of_torch())


def _bytes_of(state: Any) -> bytes:
    """The bytes of a state, including the bytes of the arrays and tensors in it."""
    if isinstance(state, tuple | list):
        return b"".join(map(_bytes_of, state))
    if hasattr(state, "cpu"):
        state = state.cpu().numpy()
    return state.tobytes() if hasattr(state, "tobytes") else repr(state).encode()


def _torch() -> Any:
    """The torch module if it is fully imported, else None.

    While another thread imports it, half of it is there, and using that half crashes.
    """
    torch = sys.modules.get("torch")
    is_loading = getattr(getattr(torch, "__spec__", None), "_initializing", False)
    return torch if hasattr(torch, "manual_seed") and not is_loading else None
