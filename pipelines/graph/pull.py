"""The kernels of ``pull``: each row collects what the nodes that point at it hand out."""

from __future__ import annotations

import numpy as np

from pipelines.svm.compiled import NO_NAN, compiled


@compiled(*NO_NAN)
def pull_one(
    bounds: np.ndarray,
    chunks: tuple[int, int],
    first: np.ndarray,
    source: np.ndarray,
    weight: np.ndarray | None,
    handed_out: np.ndarray,
    inverse: np.ndarray,
    jump: np.ndarray,
    alpha: float,
    onto_jump: float,
    everywhere: float,
    ranks: np.ndarray,
    hands_out: np.ndarray,
    changes: np.ndarray,
    lost: np.ndarray,
) -> None:
    """One iteration of one vector, for the rows of some chunks.

    bounds : chunk c has the rows bounds[c] to bounds[c + 1]
    handed_out : what each source hands to an edge of weight 1, in float32 or float64
    inverse : 1 / weight that leaves a row's node, 0 where none does
    jump : float64 of one value for each row, or of one for all
    ranks : float64, read and written
    hands_out : written, as ``handed_out``, for the next iteration
    changes, lost : float64, a chunk's L1 change and the rank on nodes that no weight leaves
    """
    alike = len(jump) == 1
    for chunk in range(chunks[0], chunks[1]):
        change = 0.0
        sunk = 0.0
        for row in range(bounds[chunk], bounds[chunk + 1]):
            # Four sums: an addition does not wait for the one before.
            a, b, c, d = 0.0, 0.0, 0.0, 0.0
            k, end = first[row], first[row + 1]
            if weight is None:
                while k + 4 <= end:
                    a += handed_out[source[k]]
                    b += handed_out[source[k + 1]]
                    c += handed_out[source[k + 2]]
                    d += handed_out[source[k + 3]]
                    k += 4
                while k < end:
                    a += handed_out[source[k]]
                    k += 1
            else:
                while k < end:
                    a += weight[k] * handed_out[source[k]]
                    k += 1
            jumped = onto_jump * jump[0 if alike else row] + everywhere
            rank = alpha * ((a + b) + (c + d)) + jumped
            change += abs(rank - ranks[row])
            ranks[row] = rank
            hands_out[row] = rank * inverse[row]
            if inverse[row] == 0.0:
                sunk += rank
        changes[chunk] = change
        lost[chunk] = sunk


@compiled(*NO_NAN)
def pull_many(
    bounds: np.ndarray,
    chunks: tuple[int, int],
    first: np.ndarray,
    source: np.ndarray,
    weight: np.ndarray | None,
    handed_out: np.ndarray,
    inverse: np.ndarray,
    jump: np.ndarray,
    alpha: float,
    onto_jump: np.ndarray,
    everywhere: np.ndarray,
    ranks: np.ndarray,
    hands_out: np.ndarray,
    changes: np.ndarray,
    lost: np.ndarray,
) -> None:
    """``pull_one`` for k vectors at once: an edge is read once for all of them.

    All but ``inverse`` and the edges have an axis more, of length k.
    """
    k_vectors = ranks.shape[1]
    sums = np.empty(k_vectors, np.float64)
    for chunk in range(chunks[0], chunks[1]):
        changes[chunk, :] = 0.0
        lost[chunk, :] = 0.0
        for row in range(bounds[chunk], bounds[chunk + 1]):
            sums[:] = 0.0
            for k in range(first[row], first[row + 1]):
                of = source[k]
                times = 1.0 if weight is None else weight[k]
                for v in range(k_vectors):
                    sums[v] += times * handed_out[of, v]
            for v in range(k_vectors):
                jumped = onto_jump[v] * jump[row, v] + everywhere[v]
                rank = alpha * sums[v] + jumped
                changes[chunk, v] += abs(rank - ranks[row, v])
                ranks[row, v] = rank
                hands_out[row, v] = rank * inverse[row]
                if inverse[row] == 0.0:
                    lost[chunk, v] += rank
