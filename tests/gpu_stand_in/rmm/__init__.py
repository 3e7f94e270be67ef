"""RMM in name: resources that count, none of which holds anything; and buffers, which do."""

import ctypes

import numpy as np


class DeviceBuffer:
    """Bytes of the device, copied from the host, for which Dask's serialisers of cupy ask."""

    def __init__(self, ptr, size):
        from cupy import note

        note("to-device", size)
        self.of_device = np.frombuffer(ctypes.string_at(ptr, size), np.uint8).copy()
