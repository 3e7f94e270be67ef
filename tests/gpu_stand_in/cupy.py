"""numpy in cupy's place, for tests without a GPU: a first import, and each copy, is written down.

Dask sends, and counts, its arrays by what ``distributed.protocol.cupy`` registers for cupy's.

A folder to be put on ``sys.path``, for processes that tests start too. Lines go to the file that
the environment variable GPU_STAND_IN names: process, what, bytes.
"""

import functools
import os

import numpy as np
from numpy import *  # noqa: F403

__version__ = "14.2.0"


def note(what, nbytes=0):
    with open(os.environ["GPU_STAND_IN"], "a") as file:
        file.write(f"{os.getpid()} {what} {nbytes}\n")


class ndarray(np.ndarray):
    """An array of the device."""

    def __new__(cls, shape, dtype=float, memptr=None, strides=None):
        return super().__new__(cls, shape, dtype, memptr, strides=strides)

    @property
    def __cuda_array_interface__(self):
        return {"shape": self.shape, "typestr": self.dtype.str, "version": 3}

    __array_priority__ = 100  # as cupy's: what is made of several is of the device

    def __array_function__(self, *call):
        """As cupy's: numpy's functions give arrays of the device, too."""
        result = super().__array_function__(*call)
        return result.view(ndarray) if type(result) is np.ndarray else result

    def get(self):
        note("to-host", self.nbytes)
        return np.array(self)


def asarray(a, dtype=None):
    if isinstance(a, ndarray):
        return a
    if hasattr(a, "of_device"):  # a buffer of rmm
        return a.of_device.view(ndarray)
    note("to-device", np.asarray(a).nbytes)
    return np.array(a, dtype).view(ndarray)


class MemoryPool:
    def free_all_blocks(self):
        note("free")


def get_default_memory_pool():
    return MemoryPool()


def asnumpy(a):
    return a.get()


def on_device(function):
    """numpy's function, which gives an array of the device as cupy's does."""

    @functools.wraps(function)
    def call(*arguments, **options):
        if function is np.concatenate and not all(isinstance(a, ndarray) for a in arguments[0]):
            raise TypeError("Only cupy arrays can be concatenated")
        return function(*arguments, **options).view(ndarray)

    return call


arange, concatenate, from_dlpack, where = map(
    on_device, (np.arange, np.concatenate, np.from_dlpack, np.where)
)
note("import")
