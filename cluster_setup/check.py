"""``pleasingly check``: what a worker of a site sees, found out by one job."""

from __future__ import annotations

import importlib
import os
import socket
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import psutil
import pynvml
from distributed import Client

from cluster_setup import open_cluster, resolve_kind
from cluster_setup.on_this_machine.devices import available_cores, old_driver

MEGABYTES = 64
ALIKE = ("python", "dask", "distributed", "cloudpickle", "numpy")  # here and on workers


def check(profile: str, device: str, tls: bool, echo: Callable[[str], None]) -> int:
    """Submit one job and say what its worker sees; 0, or 1 when something is not as it must be.

    Raises
    ------
    ClusterError
        The job did not bring a worker; the message says why.
    """
    kind = resolve_kind("auto", profile)
    echo(f"profile    {profile}, {kind}")
    submitted = time.time()
    with open_cluster(kind, 1, profile=profile, device=device, tls=tls, echo=echo) as client:
        came = time.time()
        (seen,) = client.run(look_around).values()
        versions = client.get_versions()
        to_worker, back = _transfer_speeds(client)
    ran = max(submitted, seen["started"])
    echo(
        f"queue      {ran - submitted:.1f} s until the job ran, "
        f"{came - ran:.1f} s more until its worker was there"
    )
    echo(f"worker     {seen['host']}, {seen['cores']} cores, {seen['memory_gib']:.1f} GiB")
    echo(f"gpu        {seen['gpu']}")
    for package in ("cuml", "torch"):
        echo(f"{package:10} {seen[package]}")
    echo(f"transfer   {to_worker:.0f} MB/s to the worker, {back:.0f} MB/s back")
    (worker,) = versions["workers"].values()
    wrong = []
    for name in ALIKE:
        here, there = (
            str(side["packages"][name]).removesuffix(".final.0")  # 3.11.7.final.0
            for side in (versions["client"], worker)
        )
        if here != there:
            wrong.append(name)
        echo(f"{name:10} {here}" + (f" here, {there} there" if name in wrong else ", the same"))
    if wrong:
        echo(
            f"warning    {', '.join(wrong)} differ between here and the job: the python of the "
            "profile belongs to another installation"
        )
    return 1 if wrong else 0


def look_around() -> dict[str, Any]:
    """Return what a worker, which runs this, sees."""
    return {
        "host": socket.gethostname(),
        "cores": available_cores(),
        "memory_gib": psutil.virtual_memory().total / 2**30,
        "started": psutil.Process(os.getppid()).create_time(),  # the nanny, the job's program
        "gpu": _gpu(),
        "cuml": _imported("cuml"),
        "torch": _imported("torch"),
    }


def _gpu() -> str:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "not set")
    try:
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
        names = [
            pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(n)) for n in range(count)
        ]
        cuda = pynvml.nvmlSystemGetCudaDriverVersion()
        driver = pynvml.nvmlSystemGetDriverVersion()
    except pynvml.NVMLError as error:
        return f"none ({error}); CUDA_VISIBLE_DEVICES {visible}"
    return (
        f"{', '.join(map(str, names))}; driver {driver}, CUDA {cuda // 1000}.{cuda % 1000 // 10}; "
        f"CUDA_VISIBLE_DEVICES {visible}" + (f"; {why}" if (why := old_driver()) else "")
    )


def _imported(package: str) -> str:
    try:
        module = importlib.import_module(package)
        if package == "torch":
            sees = "sees the GPU" if module.cuda.is_available() else "sees no GPU"
            return f"{module.__version__}, {sees}"
        return str(module.__version__)
    except ImportError as error:
        return "not installed" if error.name == package else f"cannot be imported: {error}"
    except Exception as error:  # a GPU library without its driver raises anything
        return f"cannot be imported: {' '.join(str(error).split())}"


def _transfer_speeds(client: Client) -> tuple[float, float]:
    """Return MB/s of an array to the worker and back, the better of three turns."""
    array = np.random.default_rng(0).integers(0, 255, MEGABYTES * 10**6, dtype=np.uint8)
    there, back = [], []
    for _ in range(3):
        started = time.perf_counter()
        future = client.scatter(array, hash=False)
        arrived = time.perf_counter()
        future.result()
        there.append(arrived - started)
        back.append(time.perf_counter() - arrived)
    return MEGABYTES / min(there), MEGABYTES / min(back)
