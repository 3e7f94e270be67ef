"""``pleasingly check``: what a worker of a site sees, found out by one job."""

from __future__ import annotations

import argparse
import importlib
import os
import socket
import sys
import time
from collections.abc import Sequence
from typing import Any, NoReturn

import psutil
import pynvml

from cluster_setup import open_cluster, resolve_kind
from cluster_setup.errors import ClusterError
from cluster_setup.on_this_machine.devices import available_cores, old_driver

ALIKE = ("python", "dask", "distributed", "cloudpickle", "numpy")  # here and on workers


class _OneLineParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ClusterError(f"{message}; see {self.prog} --help")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status: 0, 1 (not as it must be) or 2 (bad input)."""
    parser = _OneLineParser(prog="pleasingly check", allow_abbrev=False,
                            description="Submit one job and say what its worker sees.")  # fmt: skip
    parser.add_argument("--profile", metavar="NAME|FILE", default="generic-slurm",
                        help="the site's profile (default: generic-slurm)")  # fmt: skip
    parser.add_argument("--device", choices=("auto", "cpu", "gpu"), default="auto")
    parser.add_argument("--no-tls", action="store_true", help="leave its port open")
    try:
        options = parser.parse_args(argv)
        return check(options.profile, options.device, not options.no_tls)
    except ClusterError as error:
        text = " ".join(str(error).split())
        # Control characters are written out: a terminal obeys what it is sent.
        shown = (one if one.isprintable() else repr(one)[1:-1] for one in text)
        print(f"check: {''.join(shown)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("check: stopped on request", file=sys.stderr)
        return 1


def check(profile: str, device: str, tls: bool) -> int:
    """Submit one job and print what its worker sees; 0, or 1 when something is not as it must be.

    Raises
    ------
    ClusterError
        The job did not bring a worker; the message says why.
    """
    kind = resolve_kind("auto", profile)
    print(f"profile    {profile}, {kind}")
    submitted = time.time()
    with open_cluster(kind, 1, profile=profile, device=device, tls=tls, echo=print) as client:
        came = time.time()
        (seen,) = client.run(look_around).values()
        versions = client.get_versions()
    ran = max(submitted, seen["started"])
    print(
        f"queue      {ran - submitted:.1f} s until the job ran, "
        f"{came - ran:.1f} s more until its worker was there"
    )
    print(f"worker     {seen['host']}, {seen['cores']} cores, {seen['memory_gib']:.1f} GiB")
    for name in ("gpu", "cuml", "torch"):
        print(f"{name:10} {seen[name]}")
    (worker,) = versions["workers"].values()
    wrong = []
    for name in ALIKE:
        here, there = (
            str(side["packages"][name]).removesuffix(".final.0")  # 3.11.7.final.0
            for side in (versions["client"], worker)
        )
        if here != there:
            wrong.append(name)
        print(f"{name:10} {here}" + (f" here, {there} there" if name in wrong else ", the same"))
    if wrong:
        print(
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


if __name__ == "__main__":
    sys.exit(main())
