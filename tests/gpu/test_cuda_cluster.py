"""``--cluster cuda``: one worker for each GPU, and each gets the data once.

What runs on a worker is defined inside the tests, so that it travels by value:
a worker cannot import a test file.
"""

import time

import numpy as np

from benchmarks.gpu.device import gpus
from benchmarks.gpu.figures import note
from cluster_setup import open_cluster
from pipelines.data.placement import FoldedData
from pipelines.data.scaling import Scaling
from pipelines.run.runners import OnCluster
from pipelines.search.tasks import SEARCH, Task


def test_each_worker_has_a_gpu_of_its_own():
    def which_gpu():
        import cupy

        return cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)["uuid"].hex()

    with open_cluster("cuda") as client:
        gpu_by_worker = client.run(which_gpu)
    assert len(gpu_by_worker) == len(gpus())
    assert len(set(gpu_by_worker.values())) == len(gpu_by_worker)
    note(f"{len(gpu_by_worker)} workers, each with a GPU of its own")


def test_each_worker_gets_the_data_once():
    rng = np.random.default_rng(4)
    X = rng.integers(0, 256, (20_000, 784), dtype=np.uint8)
    y = (np.arange(len(X)) % 2).astype(np.int32)
    scaling, nothing = Scaling("constants", 127.5, 73.61), (X[:0], y[:0])
    data = FoldedData(X, y, *nothing, [(y, y)], scaling, place=FoldedData.placed)
    tasks = [Task(SEARCH, 0, (i,), (0,), 1.0, "svm") for i in range(6 * len(gpus()))]

    def where_it_lies(shared, task):
        import os

        return os.getpid(), id(shared), shared.scaled("gpu").data.ptr

    with open_cluster("cuda") as client:
        runner = OnCluster(client)
        outcomes = list(runner.outcomes(where_it_lies, data, tasks))
        assert [outcome.error for outcome in outcomes] == [None] * len(tasks)
        placed = f"place-{runner.scattered.key}"
        while not all(placed in keys for keys in client.has_what().values()):
            time.sleep(0.05)
        nbytes = client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.tasks[placed].nbytes)
    assert 4 * X.size <= nbytes < 4 * X.size + 1000  # Dask knows cupy's arrays
    places = {outcome.result for outcome in outcomes}
    # Process, host object, device array: three facts, and for each worker one place.
    assert len(places) == len({process for process, _, _ in places})
    note(f"{X.nbytes / 2**20:.0f} MiB sent to each once, for {len(tasks)} tasks")
