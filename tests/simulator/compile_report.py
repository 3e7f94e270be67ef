"""Compile every kernel for a GPU that need not be there, and report what it takes.

    python tests/simulator/compile_report.py [rbf linear poly sigmoid]

Needs libNVVM, NVRTC and ptxas: CUDA's own, or the wheels of the extra ``dev``.  Run
without ``NUMBA_ENABLE_CUDASIM``.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).parents[2]))

from cuda.pathfinder import find_nvidia_binary_utility
from numba import cuda, types
from numba.cuda import dispatcher

from pipelines.svm.cuda.kernel_values import fill_kernel, pulls_kernel
from pipelines.svm.cuda.smo import fixed_shared_bytes, smo_kernel

CAPABILITY = (9, 0)
F32, F64, I32, I64 = types.float32, types.float64, types.int32, types.int64


def array(dtype, ndim):
    return types.Array(dtype, ndim, "C")


SMO = (
    array(F32, 2), array(F32, 1), F32, I64, array(F64, 1), F64, I64, array(I32, 2),
    array(I32, 1), array(I64, 2), array(F64, 2), array(I32, 1), array(I32, 1), array(F64, 1),
    array(F64, 4), I64, I64, array(F32, 3), array(F64, 3), array(I32, 3),
    array(F32, 5), array(F64, 4), array(I64, 4), array(I64, 3),
)  # fmt: skip
FILL = (array(F32, 2), array(I32, 1), I64, F32, F32, I64, array(F32, 2))
PULLS = (array(F32, 2), array(I64, 1), array(F64, 2), array(F32, 1), F32, I64, array(F64, 4))


def assembled(ptx: str, registers: int) -> str:
    """ptxas's own account of registers, spills and shared memory, on one line."""
    ptxas = find_nvidia_binary_utility("ptxas")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(ptx)
        done = subprocess.run(
            [ptxas, "-arch=sm_90", "-v", "--maxrregcount", str(registers), source,
             "-o", Path(folder) / "kernel.cubin"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr)
    figures = re.findall(r"\d+ bytes spill \w+|Used \d+ registers|\d+ bytes smem", done.stderr)
    return ", ".join(figures)


def main(names: list[str]) -> None:
    # A device function asks the current device for its capability; there is none.
    dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=CAPABILITY)
    print(f"shared memory beside the members': {fixed_shared_bytes()} bytes")
    for name in names or ["rbf", "linear", "poly", "sigmoid"]:
        for what, kernel, signature in (
            ("smo", smo_kernel(name), SMO),
            ("fill", fill_kernel(name), FILL),
            ("pulls", pulls_kernel(name), PULLS),
        ):
            ptx, _ = cuda.compile(
                kernel.py_func, signature, device=False, abi="numba", cc=CAPABILITY
            )
            local = "local memory" if re.search(r"\.local\b", ptx) else "no local memory"
            for registers in (64, 128, 255) if what == "smo" else (64,):
                print(f"{what} {name} <= {registers}: {local}, {assembled(ptx, registers)}")


if __name__ == "__main__":
    main(sys.argv[1:])
