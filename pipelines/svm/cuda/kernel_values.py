"""Kernel values from products, one at a time, on the device.

The solver, the sums it starts from and the scoring use the same functions, so that all three see
the same float32 kernel to the last bit.
"""

import math
from functools import cache

import numpy as np
from numba import cuda

from pipelines.svm.compiled import kept_by_arguments
from pipelines.svm.cuda.block import SHIFTER, SIMULATED, WARP, device, fused, power_of_two, sum_of


@device
def falling_expm1(x):
    """``exp(x) - 1`` of a float32 x <= 0, to 2 units in the last place.

    It takes two thirds of the instructions of the library's function, which also handles positive
    x; an SMO iteration needs three values for every row.
    ``exp(x) = 2**n exp(f)``, |f| <= ln 2 / 2.
    """
    x = max(x, np.float32(-87))
    shifted = fused(x, np.float32(1.4426950408889634), SHIFTER)
    n = np.float32(shifted - SHIFTER)
    # ln 2 in two parts, of which the first times n is exact.
    f = fused(n, np.float32(-0.693145751953125), x)
    f = fused(n, np.float32(-1.42860682e-6), f)
    # (exp(f) - 1 - f) / f**2, fitted at Chebyshev nodes: within 5e-10 times |f|.
    p = fused(np.float32(1.9899427e-4), f, np.float32(1.3933754e-3))
    p = fused(p, f, np.float32(8.3332984e-3))
    p = fused(p, f, np.float32(4.1666463e-2))
    p = fused(p, f, np.float32(1.66666672e-1))
    p = fused(p, f, np.float32(0.5))
    p = fused(np.float32(p * f), f, f)
    scale = power_of_two(shifted)
    return fused(p, scale, np.float32(scale - np.float32(1)))


@device
def _rbf(shared, gamma, coef0, degree):
    # exp(-x) - 1 gives the same problem, as multipliers sum to 0, and keeps in float32 the small
    # differences that a small gamma leaves.
    if SIMULATED:  # each operation takes long in the simulator; a test compares the two
        return np.float32(math.expm1(-gamma * shared))
    return falling_expm1(np.float32(-gamma * shared))


@device
def _linear(shared, gamma, coef0, degree):
    return shared


@device
def _poly(shared, gamma, coef0, degree):
    base = gamma * shared + coef0
    value = np.float32(1)
    for _ in range(degree):
        value *= base
    return value


@device
def _sigmoid(shared, gamma, coef0, degree):
    return np.float32(math.tanh(gamma * shared + coef0))


# (shared, gamma, coef0, degree) -> value
_VALUES = {"rbf": _rbf, "linear": _linear, "poly": _poly, "sigmoid": _sigmoid}


@cache
def value_function(name: str):
    """The device function ``(products, shared) -> value`` of a kernel; see ``Products``."""
    value_at = _VALUES[name]

    @device
    def value(products, shared):
        return value_at(shared, products.gamma, products.coef0, products.degree)

    return value


@cache
def self_function(name: str):
    """The device function ``(matrix, p)`` for the kernel value of member p with itself.

    matrix : float32 (width + 1, width), whose last row is the diagonal
    """
    if name == "rbf":

        @device
        def zero(matrix, p):
            return np.float32(0)

        return zero

    @device
    def self_at(matrix, p):
        return matrix[np.uint32(matrix.shape[1]), np.uint32(p)]

    return self_at


@kept_by_arguments
def fill_kernel(name: str):
    """The CUDA kernel that writes kernel values of some rows and a range of columns.

    ``(shared, rows, first, gamma, coef0, degree, out)``: ``out[v, k]`` is the value for row
    ``rows[v]`` and column ``first + k``.  A block computes a row.

    shared : float32 (m, n); rows : int32 (n_rows,); out : float32 (n_rows, width)
    """
    value_at = _VALUES[name]

    @cuda.jit(cache=True)
    def fill(shared, rows, first, gamma, coef0, degree, out):
        v = cuda.blockIdx.x
        source, target = shared[rows[v]], out[v]
        for k in range(cuda.threadIdx.x, target.size, cuda.blockDim.x):
            target[k] = value_at(source[first + k], gamma, coef0, degree)

    return fill


@kept_by_arguments
def pulls_kernel(name: str):
    """The CUDA kernel that sums each row of kernel values over each class.

    ``(shared, starts, weights, gammas, coef0, degree, first, pulls)``: ``pulls[g, f, c, r]`` is the
    sum over the columns of class c of the kernel of gamma g at row r times the weights of fold f.
    A block computes a row, from ``first`` on, for a gamma, and a warp a fold: the row is read from
    memory once.

    shared : float32 (n, n); starts : int64 (n_classes + 1,), columns;
    weights : float64 (n_folds, n); gammas : float32 (n_gammas,);
    pulls : float64 (n_gammas, n_folds, n_classes, n)
    """
    value_at = _VALUES[name]

    @cuda.jit(cache=True)
    def sum_classes(shared, starts, weights, gammas, coef0, degree, first, pulls):
        row, g = first + cuda.blockIdx.x, cuda.blockIdx.y
        lane, n_warps = cuda.threadIdx.x % WARP, cuda.blockDim.x // WARP
        source, gamma = shared[row], gammas[g]
        for fold in range(cuda.threadIdx.x // WARP, weights.shape[0], n_warps):
            weight = weights[fold]
            for c in range(starts.size - 1):
                total = 0.0
                for k in range(starts[c] + lane, starts[c + 1], WARP):
                    value = value_at(source[k], gamma, coef0, degree)
                    total += np.float64(value) * weight[k]
                total = sum_of(total, WARP)
                if lane == 0:
                    pulls[g, fold, c, row] = total

    return sum_classes
