"""What tasks share on a cluster: data on hosts, and on GPUs what a task ``place`` makes of them.

A stand-in for cupy writes down copies; workers of two hosts have addresses of two.
"""

from __future__ import annotations

import copy
import gc
import os
import pickle
import signal
import sys
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import dask
import numpy as np
import pytest
from dask.sizeof import sizeof
from distributed import Client, Nanny, Scheduler, SpecCluster, WorkerPlugin
from distributed.comm import get_address_host
from distributed.security import Security

from cluster_setup import open_cluster
from cluster_setup.dask_settings import SETTINGS
from cluster_setup.shutdown import close_or_kill
from pipelines.bagging.work import Trainings, run_trainings
from pipelines.data.placement import ALIGNMENT, FoldedData, Placement, SharedData
from pipelines.data.scaling import Scaling
from pipelines.nn.inputs import Inputs
from pipelines.nn.settings import TrainingSettings
from pipelines.nn.space import SearchSpace
from pipelines.run.runners import OnCluster
from pipelines.search.scoring import CandidateScorer
from pipelines.search.tasks import SEARCH, Problem

from .test_runners import Number

N_ROWS, N_FEATURES = 4000, 100
HOST_BYTES, DEVICE_BYTES = 5 * N_ROWS + N_ROWS * N_FEATURES, 4 * N_ROWS * N_FEATURES


def data_on(device, n_rows=N_ROWS):
    X = np.random.default_rng(0).integers(0, 256, (n_rows, N_FEATURES), dtype=np.uint8)
    y = (np.arange(n_rows) % 2).astype(np.int32)
    return FoldedData(
        X,
        y,
        X[:0],
        y[:0],
        (),
        Scaling("constants", 127.5, 73.61),
        weights=y.astype(np.uint8),
        place=FoldedData.placed if device == "gpu" else None,
    )


def total_on_gpu(data, task):
    return os.getpid(), float(np.sum(data.scaled("gpu")))


def total_on_each(data, task):
    """With as many workers as the task costs, each of which waits for all others."""
    here = Path(os.environ["GPU_STAND_IN"]).with_name(f"present-{task.cost:g}")
    here.mkdir(exist_ok=True)
    (here / str(os.getpid())).touch()
    while len(list(here.iterdir())) < task.cost:
        time.sleep(0.05)
    return total_on_gpu(data, task)


def total_on_cpu(data, task):
    return float(np.sum(data.scaled("cpu")))


def total_of_one_that_dies(data, task):
    (died := Path(os.environ["GPU_STAND_IN"]).with_name("died")).touch(exist_ok=True)
    if task.value == 3 and not died.read_text():
        died.write_text("once")
        time.sleep(0.5)  # a nanny does not restart a worker that dies while it starts
        os.kill(os.getpid(), signal.SIGKILL)
    return total_on_gpu(data, task)


def out_of_memory(data):
    raise RuntimeError("the card has 12 bytes left")


def transfers(dask_worker):
    log = dask_worker.transfer_incoming_log
    return [(entry["who"], str(key)) for entry in log for key in entry["keys"]]


def sizes(dask_scheduler):
    return {str(key): task.nbytes for key, task in dask_scheduler.tasks.items() if task.who_has}


def kept():
    gc.collect()
    return sum(len(placement) for placement in gc.get_objects() if isinstance(placement, Placement))


HOSTS = ("127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.2")


def worker_on(host, security):
    options = {"host": host, "nthreads": 1, "security": security, "dashboard": False}
    return {"cls": Nanny, "options": options}


@pytest.fixture
def two_hosts(
    gpu_stand_in,
):
    security = Security.temporary()
    scheduler = {
        "host": "127.0.0.1",
        "security": security,
        "protocol": "tls://",
        "dashboard": False,
        "dashboard_address": "127.0.0.1:0",
    }
    workers = {number: worker_on(host, security) for number, host in enumerate(HOSTS)}
    with (
        dask.config.set(SETTINGS),  # by its own, Dask would thin out what lies on every worker
        ExitStack() as ending,
    ):
        options = {"cls": Scheduler, "options": scheduler}
        cluster = SpecCluster(workers, options, security=security)
        ending.callback(close_or_kill, cluster)
        client = Client(cluster, security=security, set_as_default=False)
        ending.enter_context(client).wait_for_workers(4)
        yield cluster, client


def assert_one_came_over_the_network(client):
    while sum("place-" in str(held) for held in client.has_what().values()) < 4:
        time.sleep(0.05)
    counted = Counter(
        (get_address_host(sender) == get_address_host(receiver), key)
        for receiver, came in client.run(transfers).items()
        for sender, key in came
        if key.startswith(("SharedData", "place-"))
    )
    data, placed = sorted({key for _, key in counted})
    assert placed == f"place-{data}"
    assert counted == {(False, data): 1, (True, data): 2, (False, placed): 1, (True, placed): 2}
    assert all({data, placed} <= set(held) for held in client.has_what().values())


@pytest.mark.slow
def test_the_data_go_once_to_a_host_and_once_to_a_device(two_hosts, gpu_stand_in):
    cluster, client = two_hosts
    runner, data = OnCluster(client), data_on("gpu")
    outcomes = list(runner.outcomes(total_on_each, data, [Number(i, 4) for i in range(8)]))
    assert {outcome.result[1] for outcome in outcomes} == {
        float(np.sum(data.scaled("cpu").astype(np.float32)))
    }
    assert len({outcome.worker for outcome in outcomes}) == 4
    assert_one_came_over_the_network(client)
    assert runner.scattered is not None
    of_data, of_rows = (
        client.run_on_scheduler(sizes)[begin + runner.scattered.key] for begin in ("", "place-")
    )
    assert HOST_BYTES <= of_data < HOST_BYTES + 1000
    assert DEVICE_BYTES <= of_rows < DEVICE_BYTES + 1000
    cluster.worker_spec[4] = worker_on("127.0.0.2", cluster.security)
    cluster.sync(cluster._correct_state)
    client.wait_for_workers(5)
    later = list(runner.outcomes(total_on_each, data, [Number(i, 5) for i in range(9)]))
    assert len({outcome.worker for outcome in later}) == 5
    touches = gpu_stand_in()
    copies = {process: nbytes for process, what, nbytes in touches if what == "to-device"}
    # One makes them of bytes; the others are sent them, by what Dask registers for cupy.
    assert sorted(copies.values()) == [N_ROWS * N_FEATURES] + [DEVICE_BYTES] * 4
    assert copies.keys() == {outcome.result[0] for outcome in later}
    assert Counter(what for _, what, _ in touches) == {"import": 5, "to-device": 5, "to-host": 4}
    assert not any(client.run(kept).values())  # Dask alone holds what a task ``place`` made
    del runner
    wait_until_nothing_is_held(client)


def wait_until_nothing_is_held(client):
    while any(client.has_what().values()) or any(client.run(kept).values()):
        time.sleep(0.05)


@pytest.mark.parametrize("n_workers", [1, 2])
def test_what_died_with_a_worker_is_placed_anew(n_workers, gpu_stand_in):
    """Where it was the only one the data are scattered again."""
    with open_cluster("local", n_workers) as client:
        runner, tasks = OnCluster(client), [Number(i) for i in range(12)]
        outcomes = list(runner.outcomes(total_of_one_that_dies, data_on("gpu"), tasks))
        assert {outcome.error for outcome in outcomes} == {None}
        assert len(outcomes) == 12
        assert {outcome.result[1] for outcome in outcomes} == {
            float(np.sum(data_on("cpu").scaled("cpu").astype(np.float32)))
        }
        processes = {process for process, what, _ in gpu_stand_in() if what == "to-device"}
        assert len(processes) > 1
        runner.close()
        wait_until_nothing_is_held(client)


def test_an_error_of_placing_is_that_of_each_task(one_worker):
    data = replace(data_on("cpu"), place=out_of_memory)
    outcomes = list(OnCluster(one_worker).outcomes(total_on_cpu, data, [Number(1), Number(2)]))
    assert [outcome.error for outcome in outcomes] == 2 * [
        "RuntimeError: the card has 12 bytes left"
    ]


class OnAGpu(WorkerPlugin):
    def setup(self, worker):
        import torch_cuda

        torch_cuda.install()


@pytest.mark.slow
def test_images_of_networks_go_once_to_a_device(two_hosts, gpu_stand_in):
    client, data = two_hosts[1], replace(data_on("gpu", 300), place=None)
    plan = Trainings.draw(
        data.y,
        Inputs(N_FEATURES, 2, (10, 10)),
        SearchSpace.load("small"),
        TrainingSettings(device="gpu", max_epochs=1, memory_bytes=2**33),
        n_bootstrap=4,
        n_tuning=2,
        n_folds=2,
        seed=0,
    )
    client.register_plugin(OnAGpu())
    problem = plan.problem(data)
    runner, feed = OnCluster(client), plan.feed(problem, 4)
    events = run_trainings(plan.shared_fit, runner, problem, feed)
    rows = [row for _, new_rows in events for row in new_rows]
    assert {row["status"] for row in rows} == {"ok"}
    assert_one_came_over_the_network(client)
    copies, nbytes = Counter(gpu_stand_in()), 4 * 300 * N_FEATURES
    of_rows = {key[0]: n for key, n in copies.items() if key[1:] == ("to-device", nbytes)}
    assert of_rows == dict.fromkeys(client.run(os.getpid).values(), 1)
    # Sent to three workers; else weights and answers alone, of which none is as large.
    to_host = {key[0::2]: n for key, n in copies.items() if key[1] == "to-host"}
    assert sum(n for (_, n_bytes), n in to_host.items() if n_bytes == nbytes) == 3
    assert 0 < max(n for _, n in to_host if n != nbytes) < nbytes


def test_on_cpus_nothing_is_placed_but_by_tasks(four_workers):
    """What they derive from the data is freed with these."""
    runner, data = OnCluster(four_workers), data_on("cpu")
    totals = {o.result for o in runner.outcomes(total_on_cpu, data, [Number(i) for i in range(20)])}
    assert totals == {float(np.sum(data.scaled("cpu")))}
    assert not any(key.startswith("place") for key in four_workers.run_on_scheduler(sizes))
    assert max(four_workers.run(kept).values()) == 1
    del runner
    until = time.monotonic() + 20
    while any(four_workers.run(kept).values()):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_what_cannot_be_placed_fails_in_its_tasks(four_workers):
    """Without cupy: the rows of the run say why, and the cluster lives."""
    outcomes = list(OnCluster(four_workers).outcomes(total_on_gpu, data_on("gpu"), [Number(1)]))
    assert [outcome.error for outcome in outcomes] == [
        "ModuleNotFoundError: No module named 'cupy'"
    ]


def where_arrays_begin(problem, task):
    data = problem.data
    arrays = [data.X, data.y, data.X_test, data.weights]
    arrays += [rows for split in problem.splits[SEARCH, 1.0] for rows in split]
    return [(array.flags.aligned, array.ctypes.data % ALIGNMENT == 0) for array in arrays]


def test_arrays_are_aligned_on_every_worker(four_workers):
    """Whatever else travels in the same message: Dask hands out pieces of it as they are."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(301, 7)), np.arange(301, dtype=np.int32)
    splits = [(np.arange(n), np.arange(n, 301)) for n in (100, 201)]
    data = FoldedData(X, y, X[:5], y[:5], (), Scaling("none"), weights=rng.random(301))
    problem = Problem(data, (), {(SEARCH, 1.0): splits}, CandidateScorer(), (), ("odd",) * 3)
    tasks = [Number(i) for i in range(12)]
    outcomes = list(OnCluster(four_workers).outcomes(where_arrays_begin, problem, tasks))
    assert {outcome.error for outcome in outcomes} == {None}
    assert {begin for outcome in outcomes for begin in outcome.result} == {(True, True)}


def test_arrays_of_a_message_are_aligned_wherever_they_lie_in_it():
    arrays = [np.random.default_rng(0).normal(size=n) for n in (3, 50, 7)]
    buffers = []
    pickled = pickle.dumps(SharedData(arrays), protocol=5, buffer_callback=buffers.append)
    message = np.zeros(sum(array.nbytes for array in arrays) + 1, np.uint8)
    pieces, start = [], 1
    for buffer in buffers:
        piece = message[start : start + buffer.raw().nbytes]
        piece[:] = buffer.raw()
        pieces.append(piece)
        start += piece.size
    assert len(pieces) == 3
    assert not np.frombuffer(pieces[0]).flags.aligned
    received = pickle.loads(pickled, buffers=pieces).shared
    for array, sent in zip(received, arrays, strict=True):
        assert array.flags.aligned
        np.testing.assert_array_equal(array, sent)


def test_a_placement_is_made_once_and_travels_empty():
    placement = Placement()
    assert [placement.get("rows", lambda value=value: value) for value in (1, 2)] == [1, 1]
    assert placement.recall("columns") is None
    assert placement.latest("products", "fold 0", lambda: 3) == 3
    assert placement.latest("products", "fold 0", lambda: 4) == 3
    assert placement.latest("products", "fold 1", lambda: 5) == 5
    assert placement.latest("products", "fold 0", lambda: 6) == 6
    assert len(placement) == 2
    placement.drop("products")
    assert len(pickle.loads(pickle.dumps(placement))) == 0 < len(placement)
    placement.lend({"images": (lent := np.arange(3))})
    assert placement.get(("gpu", "images"), list) is lent
    del lent
    assert placement.get(("gpu", "images"), list) == []  # whoever lent it let go of it


def test_searches_side_by_side_keep_what_is_theirs():
    first, second = data_on("cpu", 30), data_on("cpu", 40)
    rows = first.scaled("cpu")
    assert len(second.scaled("cpu")) == 40
    assert first.scaled("cpu") is rows


def test_a_copy_with_other_rows_has_nothing_of_the_first():
    data = data_on("cpu", 30)
    assert len(data.scaled("cpu")) == 30
    other = replace(data, X=data.X[:20])
    assert len(other.scaled("cpu")) == 20
    assert len(data.scaled("cpu")) == 30


def test_anything_can_be_shared_and_copied():
    for shared in (np.array(["2026-11-26"], "M8[D]"), {"data": 1}, "text", None):
        again = copy.deepcopy(SharedData(shared))
        assert sizeof(again) < 1000
        np.testing.assert_equal(again.shared, shared)


def test_dask_counts_what_lies_on_the_host():
    assert sizeof(SharedData(data_on("cpu"))) >= HOST_BYTES
    assert sizeof(SharedData("anything")) < 1000


def test_folds_of_a_table_are_standardised_where_its_rows_are(tmp_path, monkeypatch):
    noted = tmp_path / "touches"
    monkeypatch.setenv("GPU_STAND_IN", str(noted))
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "gpu_stand_in")
    X = np.random.default_rng(0).normal(size=(1000, 8))
    y = np.zeros(1000, np.int32)
    data = FoldedData(X, y, X[:0], y[:0], (), Scaling("standardise"))
    for rows in (np.arange(500), np.arange(500, 1000)):
        gpu_rows, cpu_rows = data.scaled("gpu", rows), data.scaled("cpu", rows)
        np.testing.assert_array_equal(np.asarray(gpu_rows), cpu_rows.astype(np.float32))
    copies = [line.split()[1:] for line in noted.read_text().splitlines()]
    of_columns = [["to-device", str(8 * 8)]] * 2
    once = [["to-device", str(X.nbytes)]]
    assert sorted(copies) == sorted([*of_columns, *once, *of_columns, ["import", "0"]])
    del sys.modules["cupy"]
