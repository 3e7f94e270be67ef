"""The path solver on a GPU: a thread block for each binary problem walks along C."""

import numpy

# numba-cuda (0.30) looks this name up when it compiles, and numpy 2.5 no longer has it.
vars(numpy).setdefault("row_stack", numpy.vstack)
