"""Data scattered to the workers, and what a process derives from them."""

from __future__ import annotations

import hashlib
import pickle
import sys
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Self, SupportsIndex
from weakref import WeakValueDictionary

import numpy as np

from pipelines.data.dataset import take_rows
from pipelines.data.preparation import Fitted, Preparation
from pipelines.data.scaling import FittedScaling, Scaling

if TYPE_CHECKING:
    from pipelines.data.dataset import Dataset

Fold = tuple[np.ndarray, np.ndarray]

ALIGNMENT = 16  # in bytes; the alignment of the largest numbers in arrays


class Placement:
    """A cache of what a process derives from some rows, such as copies on a device.

    It is an attribute of those rows, and is freed with them. It arrives empty when the rows are
    sent to another process.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # reentrant: making one value may look up another
        self._values: dict[Hashable, Any] = {}
        self._lent = WeakValueDictionary[Hashable, Any]()

    def __reduce__(self) -> tuple[Any, ...]:
        return Placement, ()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """The value of ``key``: a value that was lent, or one made at the first call."""
        with self._lock:
            if (lent_value := self._lent.get(key)) is not None:
                return lent_value
            if key not in self._values:
                self._values[key] = make()
            return self._values[key]

    def lend(self, arrays: Mapping[str, Any]) -> None:
        """Let ``get`` return these GPU arrays, by name, for as long as the lender holds them."""
        with self._lock:
            self._lent.update({("gpu", name): array for name, array in arrays.items()})

    def latest(self, slot: str, key: Hashable, make: Callable[[], Any]) -> Any:
        """The value of ``key``, made unless it is in the slot, which holds a single value."""
        with self._lock:
            if self._values.get(slot, (None,))[0] != key:
                self._values.pop(slot, None)
                self._values[slot] = key, make()
            return self._values[slot][1]

    def recall(self, key: Hashable) -> Any:
        """The value of ``key``; None if it was not made here."""
        return self._values.get(key)

    def drop(self, key: Hashable) -> None:
        """Free the value of ``key``, or of a slot, if there is one."""
        with self._lock:
            self._values.pop(key, None)


@dataclass(frozen=True)
class FoldedData:
    """A data set with its folds: scattered once, the same object for every task.

    Attributes
    ----------
    X : array of shape (n_samples, n_features)
        Training rows, unscaled; a DataFrame where ``scaling`` is a ``Preparation``.
    y : int32 array of shape (n_samples,)
        Class codes, 0 to n_classes - 1.
    X_test, y_test : arrays
        Test rows, unscaled; of length 0 where there are none.
    folds : sequence of (training rows, validation rows), int32 arrays
    scaling : Scaling or Preparation
    weights : float64 array of shape (n_samples,), optional
        Weights of the training rows, as ``draw_bootstrap`` takes them.
    place : function of a ``FoldedData``, optional
        Makes the GPU arrays that all tasks share: arrays of cupy by name, which ``placement`` lends
        under the key ``("gpu", name)``. A separate task calls it, see the function ``place``.
    placement : Placement
        What this process derives from the rows. ``dataclasses.replace`` gives the copy a new one,
        as its rows may differ.
    """

    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray
    folds: Sequence[Fold]
    scaling: Scaling | Preparation
    weights: np.ndarray | None = None
    place: Callable[[Any], dict[str, Any]] | None = None
    placement: Placement = field(default_factory=Placement, init=False)

    @classmethod
    def of(cls, dataset: Dataset, folds: Sequence[Fold] = (), X_test: Any = None) -> FoldedData:
        """A data set with folds of its training rows, and with other test rows if given."""
        return cls(
            dataset.X_train,
            dataset.y_train,
            dataset.X_test if X_test is None else X_test,
            dataset.y_test,
            folds,
            dataset.scaling,
        )

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays in host memory."""
        arrays = self.X, self.y, self.X_test, self.y_test, self.weights, *chain(*self.folds)
        return sum(
            int(array.memory_usage().sum())
            if hasattr(array, "memory_usage")
            else getattr(array, "nbytes", 0)
            for array in arrays
        )

    def taking(self, rows: np.ndarray) -> Self:
        """Some of the training rows, without folds and weights, with a placement of their own."""
        return replace(self, X=take_rows(self.X, rows), y=self.y[rows], folds=(), weights=None)

    def scaling_for(self, rows: np.ndarray | None) -> Fitted:
        """The scaling fitted on ``rows`` of the training set; None for all rows."""
        return self.scaling.fit(self.X if rows is None else take_rows(self.X, rows))

    def scaled(self, device: str, rows: np.ndarray | None = None) -> Any:
        """The training rows, scaled and on ``device``.

        Parameters
        ----------
        device : {"cpu", "gpu"}
        rows : int array, optional
            The rows on which a scaling that learns is fitted; by default all.

        Returns
        -------
        numpy or cupy array of shape (n_samples, n_features)
            Kept in ``placement``, unless it is standardised on ``rows``.
        """
        if self.scaling.learns and rows is not None:
            if isinstance(self.scaling, Preparation):  # slow to make, and small
                fold = hashlib.sha256(rows.tobytes()).hexdigest()
                return self.placement.get((device, fold), lambda: self._scale(rows, device))
            return self._scale(rows, device)
        return self.placement.get((device, "scaled"), lambda: self._scale(None, device))

    def unscaled(self, device: str) -> Any:
        """The training rows as they are, on ``device``; cached like the rows of ``scaled``."""
        return self.placement.get((device, "unscaled"), lambda: to_device(self.X, device))

    def placed(self) -> dict[str, Any]:
        """The rows that the path solver and cuML use on a GPU, by name; see ``place``."""
        if self.scaling.learns:  # each fold scales its own from them
            return {"unscaled": to_device(self.X, "gpu")}
        return {"scaled": self._scale(None, "gpu")}

    def _scale(self, rows: np.ndarray | None, device: str) -> Any:
        """All training rows on a device, with the scaling fitted on ``rows``."""
        scaling = self.scaling_for(rows)
        if not isinstance(scaling, FittedScaling):
            return to_device(_single(scaling.transform(self.X), device), device)
        if isinstance(scaling.center, float):
            return _single(scaling.transform(to_device(self.X, device)), device)
        # Each fold scales on the device, from rows that were copied there once.
        on_device = FittedScaling(
            to_device(np.asarray(scaling.center), device),
            to_device(np.asarray(scaling.scale), device),
        )
        return _single(on_device.transform(self.unscaled(device)), device)


class SharedData:
    """Data that tasks share, on the host: a value that Dask holds, counts and sends.

    Its arrays are aligned in every process. Dask hands out pieces of one message, whose arrays
    begin anywhere; sums over those take several times as long, and some libraries refuse them.

    Parameters
    ----------
    shared : object
        A ``FoldedData``, or an object with one as its attribute ``data``; anything else is sent as
        it is.
    """

    def __init__(self, shared: Any) -> None:
        self.shared = shared
        data = getattr(shared, "__dict__", {}).get("data", shared)
        self.data = data if isinstance(data, FoldedData) else None

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        import cloudpickle  # installed with Dask, and only Dask sends this

        buffers: list[pickle.PickleBuffer] = []
        # Before protocol 5, the arrays are part of the pickle.
        callback = buffers.append if int(protocol) >= 5 else None
        pickled = cloudpickle.dumps(self.shared, int(protocol), buffer_callback=callback)
        return _received, (pickled, buffers)

    def __sizeof__(self) -> int:  # what dask.sizeof uses
        return getattr(self.shared if self.data is None else self.data, "nbytes", 0)


def _received(pickled: bytes, buffers: Sequence[Any]) -> SharedData:
    """Shared data from a pickle, with aligned arrays."""
    return SharedData(pickle.loads(pickled, buffers=map(_aligned, buffers)))


def place(shared: SharedData) -> dict[str, Any]:
    """Make the GPU arrays that tasks share; a task, whose result Dask copies to each worker.

    Dask's own serialisers send them to other workers, and they are freed when Dask forgets the
    task.
    """
    assert shared.data is not None
    assert shared.data.place is not None
    return shared.data.place(shared.data)


def _aligned(buffer: Any) -> Any:
    """The buffer, copied if it does not begin where numpy aligns arrays."""
    received = np.frombuffer(buffer, np.uint8)
    return buffer if received.ctypes.data % ALIGNMENT == 0 else received.copy()


def scatter(client: Any, data: Any, **options: Any) -> Any:
    """Scatter data to workers of a client, also from within a task of another cluster.

    Within a task, Dask would leave the data on the worker that runs it, which the client's
    scheduler may not know. Dask looks that worker up in the context, so an empty context avoids it.
    """
    return Context().run(partial(client.scatter, data, hash=False, **options))


def _single(X: Any, device: str) -> Any:
    """Single precision on a GPU; on a CPU the array as it is."""
    return X if device == "cpu" else X.astype(np.float32, copy=False)


def to_device(array: np.ndarray, device: str) -> Any:
    """``array`` itself for ``"cpu"``, a cupy copy of it for ``"gpu"``."""
    if device == "cpu":
        return array
    import cupy

    return cupy.asarray(array)


def unused_in_pool() -> int | None:
    """Bytes that this process's RMM pool holds beyond its arrays; None where there is no pool.

    Only for a pool that dask-cuda made with ``rmm_track_allocations``.
    """
    if "rmm" not in sys.modules:
        return None
    from rmm import mr

    tracked = mr.get_current_device_resource()
    if not isinstance(tracked, mr.TrackingResourceAdaptor):
        return None
    pool = tracked.get_upstream()
    return pool.pool_size() - tracked.get_allocated_bytes() if hasattr(pool, "pool_size") else None


def to_host(array: Any) -> np.ndarray:
    """A numpy or cupy array as a numpy array."""
    return array.get() if hasattr(array, "get") else array
