from __future__ import annotations

import sys
import types
from collections.abc import Callable

import dask
import pytest
from distributed import LocalCluster

from cluster_setup import ClusterOptions, open_cluster, resolve_kind
from cluster_setup.kinds import cuda
from cluster_setup.on_this_machine import devices
from pipelines.errors import InputError
from pipelines.run.cluster import opened
from tests.cluster_setup.nvml_stand_in import Card

Refusal = Callable[..., str]


Machine = Callable[..., None]
H200 = Card("H200", "GPU-h", 141)
TWIN = Card("H200", "GPU-i", 141)
OLD = Card("GTX 1050", "GPU-o", 4, (6, 1))
SMALL = Card("T1000", "GPU-s", 4, (7, 5))


@pytest.fixture
def installed(monkeypatch):
    monkeypatch.setattr(cuda, "is_installed", lambda: True)


@pytest.mark.parametrize(
    ("cards", "installed", "kind"),
    [([], True, "local"), ([H200], False, "local"), ([H200], True, "cuda")],
)
def test_auto_takes_the_gpus_where_they_can_be_used(
    machine,
    monkeypatch,
    cards,
    installed,
    kind,
):
    machine(*cards)
    monkeypatch.setattr(cuda, "is_installed", lambda: installed)
    assert resolve_kind("auto") == kind


def test_cuda_without_a_gpu(machine, refusal):
    machine()
    assert refusal("cuda").startswith("--cluster cuda needs a GPU, but NVML sees none here; use")


def test_cuda_without_dask_cuda(machine, monkeypatch, refusal):
    machine(H200)
    monkeypatch.setattr(cuda, "is_installed", lambda: False)
    assert "needs dask-cuda, which is not installed here; run " in refusal("cuda")


@pytest.mark.usefixtures("installed")
def test_cuda_with_more_workers_than_gpus_of_use(machine, refusal):
    machine(H200, OLD)
    assert "--workers must be at most 1 with --cluster cuda" in refusal("cuda", workers=2)


DRIVER = "needs NVIDIA driver {} or newer, found {}"
CARD = "needs compute capability {} or newer, found {}"
UPDATE, REINSTALL = "update the driver, run ", "run "


@pytest.mark.parametrize(
    ("package", "driver", "capability", "obstacle", "way"),
    [
        ("cupy-cuda13x", "535.183.01", (9, 0), DRIVER.format(580, "535.183.01"), UPDATE),
        ("cupy-cuda13x", "580.65.06", (10, 0), "", ""),
        ("cupy-cuda13x", "580.65.06", (7, 0), CARD.format(7.5, 7.0), REINSTALL),  # a Volta
        ("cupy-cuda13x", "580.65.06", (6, 1), CARD.format(7.5, 6.1), ""),
        ("cupy-cuda12x", "535.183.01", (7, 0), "", ""),
        ("cupy-cuda12x", "470.1", (7, 0), DRIVER.format(525, "470.1"), UPDATE),
        ("cupy-cuda12x", "535.183.01", (6, 1), CARD.format(7.0, 6.1), ""),
    ],
)
@pytest.mark.usefixtures("installed")
def test_a_driver_and_a_gpu_too_old_are_named_beside_what_is_needed_and_what_helps(
    machine,
    refusal,
    tmp_path,
    package,
    driver,
    capability,
    obstacle,
    way,
):
    machine(Card("a card", "GPU-a", 8, capability), driver=driver, package=package)
    options = ClusterOptions("threads", device="gpu")
    if not obstacle:
        assert devices.cuda_lack() is None
        with opened(options, tmp_path, False) as cluster:
            assert cluster.device == "gpu"
        return
    why, _, ways = refusal("cuda").partition(obstacle)
    assert why.startswith("--cluster cuda cannot use the GPUs here: ")
    assert ways.startswith(f"; {way or 'use --cluster local'}")
    assert ways.endswith("use --cluster local")
    assert ("gpu-cu12" in ways) == bool(way)
    with pytest.raises(InputError, match=f"{obstacle}, at .*; {way}.*device='cpu'"):
        opened(options, tmp_path, False).__enter__()


def test_a_process_whose_first_gpu_is_too_old_is_told_of_the_other(machine, tmp_path):
    machine(OLD, H200)
    message = "found 6.1, at .*; take CUDA_VISIBLE_DEVICES=GPU-h, or use device='cpu'"
    with pytest.raises(InputError, match=message):
        opened(ClusterOptions("threads", device="gpu"), tmp_path, False).__enter__()


@pytest.fixture
def worker_options(machine, installed, monkeypatch):
    """What dask-cuda is asked for, which is not there."""
    machine(H200, TWIN)
    keywords = {}

    class LocalCUDACluster(LocalCluster):
        def __init__(self, **options):
            keywords.update(options)
            super().__init__(n_workers=0, processes=False, dashboard_address="127.0.0.1:0")

    module = types.ModuleType("dask_cuda")
    module.LocalCUDACluster = LocalCUDACluster
    monkeypatch.setitem(sys.modules, "dask_cuda", module)
    return keywords


def test_cuda_asks_for_one_worker_a_gpu_and_no_spilling(worker_options):
    with open_cluster("cuda") as client:
        assert client.status == "running"
    assert worker_options["CUDA_VISIBLE_DEVICES"] == ["GPU-h", "GPU-i"]
    assert worker_options["threads_per_worker"] == 1
    assert worker_options["device_memory_limit"] is None
    assert worker_options["host"] == "127.0.0.1"
    assert worker_options["protocol"] == "tls://"
    assert worker_options["security"].require_encryption
    assert not any(name.startswith("rmm") for name in worker_options)


def test_dasks_settings_ask_for_ucx(worker_options):
    settings = {"distributed.comm.default-scheme": "ucx"}
    with dask.config.set(settings), open_cluster("cuda", tls=False):
        pass
    assert worker_options["protocol"] == "ucx://"


@pytest.mark.parametrize("torch", ["13.0", None, "not installed"])
def test_one_pool_serves_all_that_are_installed_for_cuda(worker_options, monkeypatch, torch):
    module = None if torch == "not installed" else types.SimpleNamespace(cuda=torch)
    monkeypatch.setitem(sys.modules, "torch.version", module)
    with open_cluster("cuda", rmm_pool="0.8"):
        pass
    assert {name: value for name, value in worker_options.items() if name.startswith("rmm")} == {
        "rmm_pool_size": "0.8",
        "rmm_track_allocations": True,
        "rmm_allocator_external_lib_list": ["cupy", "torch"] if torch == "13.0" else ["cupy"],
    }


@pytest.mark.parametrize(
    ("cards", "options", "taken", "message"),
    [
        ([OLD, H200], {}, ["GPU-h"], "GTX 1050, 4 GiB (GPU-o): CUDA 13 needs compute capability"),
        ([SMALL, H200, TWIN], {}, ["GPU-h", "GPU-i"], "T1000, 4 GiB (GPU-s): needs 9 GB"),
        ([SMALL, H200, TWIN], {"workers": 1}, ["GPU-h"], "T1000"),
        ([SMALL, OLD, H200], {}, ["GPU-h"], "GTX 1050"),
        ([SMALL, SMALL], {}, ["GPU-s"], ""),  # of equals the tasks say what they lack
        ([SMALL, Card("T600", "GPU-t", 2, (7, 5))], {}, ["GPU-s", "GPU-t"], ""),
        ([Card("GB10", "GPU-g", 0), H200], {}, ["GPU-g", "GPU-h"], ""),
    ],
)
def test_gpus_too_old_or_too_small_are_left_out_and_named(
    machine,
    worker_options,
    cards,
    options,
    taken,
    message,
):
    def too_small(n_bytes):
        return "needs 9 GB" if n_bytes < 9e9 else ""

    machine(*dict.fromkeys(cards))
    lines = list[str]()
    with open_cluster("cuda", echo=lines.append, too_small=too_small, **options):
        pass
    assert worker_options["CUDA_VISIBLE_DEVICES"] == taken
    assert len(lines) == bool(message)
    assert message in "".join(lines)
    assert all(line.startswith("left out   ") for line in lines)


def test_slices_have_workers_and_a_share_of_their_own_memory(machine, worker_options, monkeypatch):
    parts = [Card(f"A100 MIG {n}", f"MIG-{n}", 10 * n) for n in (1, 2)]
    machine(Card("A100", "GPU-a", 40, (8, 0), slices=parts))
    monkeypatch.setitem(sys.modules, "torch.version", None)
    with open_cluster("cuda", rmm_pool="0.5"):
        pass
    assert worker_options["CUDA_VISIBLE_DEVICES"] == ["MIG-1", "MIG-2"]
    assert worker_options["rmm_pool_size"] == 5 * 2**30


def test_numbers_in_an_order_of_cudas_own_are_refused(
    machine,
    worker_options,
    monkeypatch,
    refusal,
):
    machine(OLD, H200)
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "FASTEST_FIRST")
    with open_cluster("cuda"):  # by UUID
        assert worker_options["CUDA_VISIBLE_DEVICES"] == ["GPU-h"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    line = refusal("cuda")
    assert "cannot tell which GPUs CUDA_VISIBLE_DEVICES=0 means" in line
    assert "CUDA_DEVICE_ORDER is FASTEST_FIRST; unset that" in line
