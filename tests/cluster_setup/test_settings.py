from __future__ import annotations

from typing import Any

import dask
from distributed import Client

from cluster_setup.settings import SETTINGS, as_environment


def test_a_worker_neither_spills_nor_pauses(one_worker: Client) -> None:
    def fractions(dask_worker: Any) -> tuple:
        manager = dask_worker.memory_manager
        return (
            manager.memory_target_fraction,
            manager.memory_spill_fraction,
            manager.memory_pause_fraction,
        )

    assert list(one_worker.run(fractions).values()) == [(False, False, False)]


def test_settings_as_dask_reads_them() -> None:
    told = dask.config.collect_env(as_environment(SETTINGS))
    read = {name: dask.config.get(name, config=told) for name in SETTINGS}
    assert read == SETTINGS
