"""Landmarks, and features from them whose inner products approximate the kernel (Nyström).

References
----------
C. K. I. Williams, M. Seeger, "Using the Nyström method to speed up kernel machines", NIPS 2000.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipelines.data.placement import to_device, to_host
from pipelines.svm.kernel import Kernel, raise_to

# Eigenvectors of the landmarks' kernel whose eigenvalue is less than this fraction of the largest
# are left out: in single precision they are noise.
LEAST_FRACTION = 1e-7
# Landmarks are drawn from a sample of so many rows, or of so many for each landmark, in so many
# rounds.
ROWS, ROWS_EACH, ROUNDS = 20_000, 10, 32
# Kernel values between rows and landmarks that a thread, and a GPU, computes at once.
BLOCK_VALUES, GPU_BLOCK_VALUES = 1 << 22, 1 << 27


def choose_landmarks(X: Any, rows: np.ndarray, n: int, seed: int) -> np.ndarray:
    """Choose landmarks among ``rows``: far from each other, and more where rows are dense.

    Each round draws rows with probabilities in proportion to their squared distance from the
    landmarks chosen so far.

    Parameters
    ----------
    X : array of shape (n_samples, n_features), on any device
    rows : int array
        Numbers of the rows to choose from.
    n : int
        Number of landmarks; all rows are chosen if there are fewer.
    seed : int

    Returns
    -------
    int64 array of shape (at most n,)
        Numbers of rows of ``X``, ascending.

    References
    ----------
    B. Bahmani, B. Moseley, A. Vattani, R. Kumar, S. Vassilvitskii, "Scalable k-means++", VLDB 2012.
    """
    rng = np.random.default_rng(seed)
    if len(rows) <= n:
        return np.sort(rows).astype(np.int64)
    sample = np.sort(rng.choice(rows, min(len(rows), max(ROWS, ROWS_EACH * n)), replace=False))
    points = np.ascontiguousarray(to_host(X[sample]), np.float32)
    points -= points.mean(axis=0)
    norms = np.einsum("ij,ij->i", points, points)
    chosen = np.array([], np.int64)
    distances = np.ones(len(sample))
    while len(chosen) < n and distances.any():
        n_more = min(n - len(chosen), max(1, n // ROUNDS), int(np.count_nonzero(distances)))
        drawn = rng.choice(len(sample), n_more, replace=False, p=distances / distances.sum())
        nearest = (norms[drawn] - 2 * points @ points[drawn].T).min(axis=1) + norms
        nearest[nearest <= 1e-6 * norms] = 0  # the same row again
        distances = np.minimum(distances if len(chosen) else np.inf, np.maximum(nearest, 0))
        chosen = np.append(chosen, drawn)
        distances[chosen] = 0
    return np.sort(sample[chosen]).astype(np.int64)


@dataclass(frozen=True)
class FeatureMap:
    """Computes the features of rows, for one kernel and its landmarks.

    Attributes
    ----------
    landmarks : int64 array of shape (n_landmarks,)
        Rows of the training data.
    projection : float64 array of shape (n_landmarks, n_directions)
        On the host. Features are kernel values with the landmarks, multiplied by this matrix.
    kernel : Kernel
    """

    landmarks: np.ndarray
    projection: np.ndarray
    kernel: Kernel
    _centre: Any
    _points: Any
    _projection: Any
    _xp: Any

    @classmethod
    def of(cls, X: Any, landmarks: np.ndarray, kernel: Kernel, xp: Any = np) -> FeatureMap:
        """Make the map for some landmarks.

        Parameters
        ----------
        X : array of shape (n_samples, n_features), a numpy or ``xp`` array
        landmarks : int64 array, from ``choose_landmarks``
        kernel : Kernel
        xp : module
            numpy or cupy.
        """
        points = xp.asarray(X[xp.asarray(landmarks)], np.float64)
        centre = points.mean(axis=0) if kernel.of_distances else xp.zeros(points.shape[1])
        points -= centre
        values, vectors = xp.linalg.eigh(_between(points, points, kernel, xp))
        is_kept = values > LEAST_FRACTION * values[-1]
        projection = vectors[:, is_kept] / xp.sqrt(values[is_kept])
        single = points.astype(np.float32), projection.astype(np.float32)
        centre = centre.astype(np.float32)
        return cls(landmarks, to_host(projection), kernel, centre, *single, xp)

    @property
    def n_features(self) -> int:
        """The number of features: the directions of the landmarks' kernel, and a constant."""
        return self.projection.shape[1] + 1

    @property
    def block(self) -> int:
        """How many rows are worked on at once."""
        values = BLOCK_VALUES if self._xp is np else GPU_BLOCK_VALUES
        return max(256, values // len(self.landmarks))

    def __call__(self, rows: Any) -> Any:
        """The features of rows, float32 of shape (n, n_features); the last one is 1.

        Raises
        ------
        ValueError
            Values are so large that their kernel is not finite.
        """
        rows = self._xp.asarray(rows, np.float32) - self._centre
        out = self._xp.ones((len(rows), self.n_features), np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            out[:, :-1] = _between(rows, self._points, self.kernel, self._xp) @ self._projection
        if not bool(self._xp.isfinite(out).all()):
            raise ValueError(
                "X must hold values of which a kernel can be made in single precision, got values "
                f"up to {float(abs(rows).max()):.3g}; scale its columns"
            )
        return out

    def coefficients(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Convert weights of features to coefficients of the landmarks, and intercepts.

        Parameters
        ----------
        w : float64 array of shape (n_features, n_problems)

        Returns
        -------
        coefficients : float64 array of shape (n_landmarks, n_problems)
        intercepts : float64 array of shape (n_problems,)
        """
        return self.projection @ w[:-1], w[-1].copy()


def _between(rows: Any, points: Any, kernel: Kernel, xp: Any) -> Any:
    """Kernel values between rows and landmarks, both centred, in their own precision."""
    values = rows @ points.T
    if kernel.of_distances:
        norms, other_norms = (xp.einsum("ij,ij->i", side, side) for side in (rows, points))
        values *= -2
        values += norms[:, None]
        values += other_norms
        xp.maximum(values, 0, out=values)
        values *= -kernel.gamma
        return xp.exp(values, out=values)
    if kernel.name == "poly":
        values *= kernel.gamma
        values += kernel.coef0
        raise_to(values, kernel.degree)
    return values


def make_features(
    X: Any, rows: np.ndarray, mapped: FeatureMap, run: Any, out: Any
) -> Iterator[int]:
    """Write the features of ``rows`` to ``out``; yield how many rows are done.

    Parameters
    ----------
    X : array of shape (n_samples, n_features), on any device
    rows : int array
        Numbers of the rows.
    mapped : FeatureMap
    run : callable
        Like ``map``; on a CPU, the ``map`` of a pool.
    out : float32 array of shape (len(rows), n_features)
        Output.
    """
    starts = range(0, len(rows), mapped.block)

    def make(start: int) -> int:
        block = rows[start : start + mapped.block]
        out[start : start + len(block)] = mapped(X[to_device(block, device_of(X))])
        return start + len(block)

    yield from run(make, starts)


def device_of(X: Any) -> str:
    """Where an array lies: ``"cpu"`` or ``"gpu"``."""
    return "cpu" if isinstance(X, np.ndarray) else "gpu"


def empty_features(shape: tuple[int, int], memory_bytes: int, xp: Any = np) -> Any:
    """Allocate features, in a file on disk if they exceed ``memory_bytes`` of host memory.

    The file has no name, so that nothing is left of it however the process ends.

    Raises
    ------
    MemoryError
        They fit neither in that memory nor on the disk.
    """
    n_bytes = 4 * shape[0] * shape[1]
    if xp is not np or n_bytes <= memory_bytes:
        return xp.empty(shape, np.float32)
    with tempfile.TemporaryFile() as file:
        try:
            # A full disk raises here. Without, a write through the memory map would kill the
            # process.
            os.posix_fallocate(file.fileno(), 0, n_bytes)
        except OSError as error:
            raise MemoryError(
                f"the features of {shape[0]:,} rows take {n_bytes / 1e9:.1f} GB, more than the "
                f"memory of {memory_bytes / 2**30:.3g} GiB, and {tempfile.gettempdir()} has no "
                f"room for them ({error.strerror}); take fewer landmarks, or set TMPDIR"
            ) from error
        return np.memmap(file, np.float32, "r+", shape=shape)
