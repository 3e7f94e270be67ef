"""The CUDA kernels run in numba's simulator, which is chosen when numba is imported.

That concerns a whole process: ``make test`` runs this folder by itself.
"""

import os
import sys

if os.environ.get("NUMBA_ENABLE_CUDASIM") != "1":
    raise RuntimeError("run these tests as NUMBA_ENABLE_CUDASIM=1 python -m pytest tests/simulator")
# The simulator runs a thread per CUDA thread: hand over between them often.
sys.setswitchinterval(1e-5)
