"""Our arrays' pool: held while we work, and emptied after, whatever happens."""

import importlib
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipelines.svm.cuda.gpu import free_bytes, own_memory


class Pool:
    """As cupy's: what is taken stays taken until all free blocks are given back."""

    def __init__(self):
        self.taken = self.used = 0

    def malloc(self, n_bytes):
        self.taken, self.used = max(self.taken, self.used + n_bytes), self.used + n_bytes

    def total_bytes(self):
        return self.taken

    def free_bytes(self):
        return self.taken - self.used

    def free_all_blocks(self):
        self.taken = self.used


class Cupy:
    """cupy as RAPIDS leaves it: arrays by plain cudaMalloc unless an allocator is held."""

    def __init__(self):
        self.default, self.allocators = Pool(), []
        device = SimpleNamespace(mem_info=(1000, 2000))
        self.cuda = SimpleNamespace(
            MemoryPool=Pool, Device=lambda: device, using_allocator=self.using_allocator
        )

    def get_default_memory_pool(self):
        return self.default

    @contextmanager
    def using_allocator(self, allocator):
        self.allocators.append(allocator)
        try:
            yield
        finally:
            self.allocators.pop()


def test_arrays_come_from_one_pool_that_is_emptied():
    fake = Cupy()
    with own_memory(fake):
        pool = fake.allocators[-1].__self__
        fake.allocators[-1](300)
        pool.used -= 100
        assert pool.total_bytes() == 300
        assert free_bytes(fake) == 1100
        pool.used = 0
    assert not fake.allocators
    assert pool.total_bytes() == 0
    with own_memory(fake):
        assert fake.allocators[-1].__self__ is pool


@pytest.mark.parametrize("pool", [5000, 100, None])
def test_a_pool_of_rmm_serves_in_place_of_ours_and_counts_as_free(monkeypatch, pool):
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "gpu_stand_in")
    mr = importlib.import_module("rmm.mr")
    upstream = mr.PoolMemoryResource(pool) if pool else object()
    mr.set_current_device_resource(mr.TrackingResourceAdaptor(upstream, 30))
    try:
        fake = Cupy()
        with own_memory(fake):
            assert len(fake.allocators) == (0 if pool else 1)
            assert free_bytes(fake) == (4970 if pool == 5000 else 1000)  # the larger of both
    finally:
        for name in ("rmm", "rmm.mr"):
            del sys.modules[name]


def test_an_error_leaves_no_allocator_behind():
    fake = Cupy()
    with pytest.raises(MemoryError), own_memory(fake):
        raise MemoryError
    assert not fake.allocators
