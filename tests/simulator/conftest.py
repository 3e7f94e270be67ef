"""The CUDA kernels run in numba's simulator, which is chosen when numba is imported.

That concerns a whole process: ``make test`` runs this folder by itself.
"""

import os

if os.environ.get("NUMBA_ENABLE_CUDASIM") != "1":
    raise RuntimeError("run these tests as NUMBA_ENABLE_CUDASIM=1 python -m pytest tests/simulator")

from tests.simulator import greenlets

greenlets.install()
