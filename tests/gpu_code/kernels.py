"""Compile every kernel of the path solver as a launch would, and hold it against what was kept.

    python -m tests.gpu_code.kernels [--keep]

A search and a fit are carried out with a card that stands in (``stand_in``), so what is compiled
is what they launch: their kernels, argument types, limits of registers, shared memory. One
process for each kernel function and architecture, as many at once as there are cores.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from unittest.mock import patch

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "benchmarks" / "results" / "gpu-kernels.md"
FUNCTIONS = ("rbf", "linear", "poly", "sigmoid")
# Functions differ in a few instructions: all of them for one architecture.
KEPT_TASKS = (("rbf", "8.0"), *((function, "9.0") for function in FUNCTIONS))
OTHERS = ("7.5", "8.6", "8.9", "10.0", "12.0")  # rbf alone, and none of it kept
ALL_TASKS = (*KEPT_TASKS, *(("rbf", architecture) for architecture in OTHERS))
# All take a quarter of an hour on two cores: they are compiled where our sources or these changed.
COMPILERS = ("llvmlite", "numba", "numba-cuda", "nvidia-nvvm", "nvidia-nvjitlink", "cuda-bindings")
COMPILED_FROM = re.compile(r"Compiled from `(\w+)`")
ALL_BLOCK_SIZES = ("7.5", "8.0", "9.0")  # the smallest card and those that are kept
MANY_FEATURES = 300
HEAD = (
    "| sm | function | kernel | threads | registers | limit | spilled bytes "
    "| shared bytes | blocks wanted | blocks resident |"
)


@dataclass(frozen=True)
class Compiled:
    """What a kernel takes, on an architecture.

    threads : of a block; registers : of a thread; limit : of registers, 255 for the hardware's
    spilled : bytes stored and loaded again for want of registers, over the whole kernel
    shared : bytes of shared memory of a block, the largest of the launches
    wanted, resident : blocks of a multiprocessor, as launched and as there is room for
    """

    architecture: str
    function: str
    kernel: str
    threads: int
    registers: int
    limit: int
    spilled: int
    shared: int
    wanted: int
    resident: int

    @property
    def key(self):
        return self.architecture, self.function, self.kernel, self.threads

    @property
    def line(self):
        """Of the kept table."""
        figures = asdict(self).values()
        return "| " + " | ".join(f"{f:,}" if isinstance(f, int) else f for f in figures) + " |"

    def problems(self, kept):
        """Why a launch would fail or be slower than it was."""
        name = " ".join(map(str, self.key))
        if self.registers > self.limit:
            yield f"{name}: {self.registers} registers, the launch has {self.limit}"
        if self.resident < self.wanted:
            yield f"{name}: room for {self.resident} blocks, the launch counts on {self.wanted}"
        again = "python -m tests.gpu_code.kernels --keep"
        if kept is None:
            yield f"{name} is not in {KEPT.relative_to(ROOT)}: {again}"
        elif self.spilled > kept.spilled:
            yield f"{name} spills {self.spilled} bytes, was {kept.spilled}; if meant: {again}"


def compiled(function, architecture):
    """The kernels of one function for one architecture, in this process."""
    import numpy

    # numpy 2.5 has none of this name; the program must do without on any.
    vars(numpy).pop("row_stack", None)
    from tests.gpu_code.stand_in import CARDS, stand_in

    major, minor = architecture.split(".")
    card = CARDS[int(major), int(minor)]
    with stand_in((int(major), int(minor))) as (launches, _):
        _search_and_fit(function, all_sizes=function == "rbf" and architecture in ALL_BLOCK_SIZES)
    groups = {}
    for launch in launches:
        groups.setdefault((launch.kernel, launch.block_size, launch.max_registers), []).append(
            launch
        )
    return [
        Compiled(
            architecture,
            function,
            kernel,
            threads,
            group[0].registers,
            limit or 255,
            group[0].spilled,
            group[0].own_shared + max(launch.shared for launch in group),
            max(_wanted(launch, card["MULTIPROCESSOR_COUNT"]) for launch in group),
            _resident(group, card),
        )
        for (kernel, threads, limit), group in groups.items()
    ]


def _wanted(launch, n_multiprocessors):
    """Blocks that a launch wants on a multiprocessor at once: all where they are to stay."""
    stay = launch.kernel in ("smo_kernel", "newton_kernel", "newton_images_kernel")
    return -(-launch.n_blocks // n_multiprocessors) if stay else 1


def _resident(launches, card):
    """Blocks for which a multiprocessor has registers, threads and shared memory."""
    warps = launches[0].block_size // 32
    registers = -(-launches[0].registers * 32 // 256) * 256 * warps
    shared = (1 << 10) + launches[0].own_shared + max(launch.shared for launch in launches)
    return min(
        card["MAX_BLOCKS_PER_MULTIPROCESSOR"],
        card["MAX_THREADS_PER_MULTIPROCESSOR"] // 32 // warps,
        card["MAX_REGISTERS_PER_MULTIPROCESSOR"] // registers,
        card["MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"] // shared,
    )


def _search_and_fit(function, all_sizes):
    """Launch what the solver launches: for problems of a few thousand rows, and a single fit.

    Newton's method has other values for rows of many features, and is left out where there is
    little memory. With ``all_sizes`` also for small and for large problems, whose blocks are of
    other sizes.
    """
    import numpy as np

    from pipelines.svm.cuda import launches, path, products
    from pipelines.svm.cuda.launches import Launching

    def no_products(rows, *_):
        return np.zeros((len(rows), len(rows)), np.float32)

    def validate(
        n,
        n_classes,
        decision,
        n_gammas,
        n_features=4,
        **launching,
    ):
        largest = n if decision == "ovr" else 2 * n // n_classes
        rng, y = np.random.default_rng(0), np.arange(n) % n_classes
        fold = rng.integers(5, size=n)
        folds = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)[:20]) for f in range(5)]
        path.cross_validate_path_cuda(
            np.zeros((n, n_features)),
            y,
            np.geomspace(1e-3, 1.0, n_gammas),
            [1.0, 10.0],
            folds,
            decision=decision,
            kernel=function,
            launching=replace(Launching.for_rows(largest), **launching),
            memory_bytes=64 << 30,
            xp=np,
        )

    # Nothing is computed: arrays keep what happened to be in memory.
    with (
        np.errstate(all="ignore"),
        patch.object(products, "symmetric_products", no_products),
        patch.object(launches, "_share_done", lambda *_: 1.0),
    ):
        validate(2_000, 10, "ovr", 50)
        validate(2_000, 10, "ovr", 50, MANY_FEATURES)
        validate(2_000, 10, "ovr", 50, hard_members=0)
        validate(9_600, 2, "ovo", 1)
        path.fit_path_cuda(
            np.zeros((2_000, 4)), np.arange(2_000) % 2, 1.0, 0.1, kernel=function, xp=np
        )
        if all_sizes:
            for n_features, most in ((4, None), (MANY_FEATURES, None), (4, 0)):
                validate(400, 10, "ovo", 25, n_features, hard_members=most)
                validate(17_000, 2, "ovr", 80, n_features, hard_members=most)


def _in_a_process(task):
    """A process compiles for one architecture only, and takes nothing from an earlier cache."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "tests.gpu_code.kernels", "--one", *task],
            cwd=ROOT,
            env={**os.environ, "NUMBA_CACHE_DIR": folder, "NUMBA_ENABLE_CUDASIM": "0"},
            capture_output=True,
            text=True,
        )
    if done.returncode:
        raise RuntimeError(f"{' '.join(task)}: {done.stderr.strip().splitlines()[-1]}")
    return [Compiled(**fields) for fields in json.loads(done.stdout)]


def compile_all(tasks):
    """Every kernel of some functions, each for an architecture.

    Raises
    ------
    RuntimeError
        One does not compile, or our code around it fails.
    """
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return list(chain(*pool.map(_in_a_process, tasks)))


def input_digest():
    """A digest of what decides what is compiled: our sources, the packages and Python."""
    digest = hashlib.sha256()
    solver = ROOT / "pipelines" / "svm"
    for folder in (solver, solver / "cuda", Path(__file__).parent):
        for path in sorted(folder.glob("*.py")):
            digest.update(ast.dump(ast.parse(path.read_bytes())).encode())  # not how it is laid out
    versions = [f"{name} {version(name)}" for name in COMPILERS]
    digest.update(f"{versions} {sys.version_info[:2]}".encode())
    return digest.hexdigest()[:16]


def read_kept():
    """The kept table by ``Compiled.key``."""
    lines = KEPT.read_text().split(HEAD)[1].splitlines()[2:]
    kept = []
    for line in lines:
        if not line.startswith("|"):
            break
        words = [word.strip().replace(",", "") for word in line.strip("|").split("|")]
        kept.append(Compiled(*words[:3], *map(int, words[3:])))
    return {row.key: row for row in kept}


def keep(kernels):
    """Write the table in the place of the old one, at the page's end, and what it comes from."""
    text = COMPILED_FROM.sub(f"Compiled from `{input_digest()}`", KEPT.read_text())
    rule = "|---|---|---|" + "---:|" * (HEAD.count("|") - 4)
    lines = [
        HEAD,
        rule,
        *(kernel.line for kernel in sorted(kernels, key=lambda kernel: kernel.key)),
    ]
    KEPT.write_text(text.partition(HEAD)[0] + "\n".join(lines) + "\n")


def due():
    """All tasks; one, where the table comes from the same sources and packages."""
    unchanged = COMPILED_FROM.findall(KEPT.read_text()) == [input_digest()]
    return [("linear", "9.0")] if unchanged else ALL_TASKS


def problems(tasks, keeps=False):
    """All that is wrong with kernels, a line each; prints how long that took to find out.

    With ``keeps`` their table is written anew, unless a launch would fail.
    """
    began, kept = time.perf_counter(), read_kept()
    kernels = compile_all(tasks)
    table = [kernel for kernel in kernels if (kernel.function, kernel.architecture) in KEPT_TASKS]
    architectures = ", ".join(sorted({architecture for _, architecture in tasks}, key=float))
    seconds = time.perf_counter() - began
    print(f"{len(kernels)} kernels compiled and linked for {architectures} in {seconds:.0f} s")
    messages = [
        line
        for kernel in kernels
        for line in kernel.problems(
            kernel if keeps or kernel not in table else kept.get(kernel.key)
        )
    ]
    if keeps and not messages:
        keep(table)
    return messages


def main():
    """Compile, and compare or keep; with ``--one`` as one of the processes that do it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", action="store_true", help="write the table anew")
    parser.add_argument("--one", nargs=2, metavar=("FUNCTION", "ARCHITECTURE"))
    options = parser.parse_args()
    if options.one:
        print(json.dumps([asdict(kernel) for kernel in compiled(*options.one)]))
        return 0
    messages = problems(ALL_TASKS, options.keep)
    print("\n".join(messages), file=sys.stderr)
    return 1 if messages else 0


if __name__ == "__main__":
    sys.exit(main())
