"""Matrices in scipy on a CPU, and the same calls in cupy on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.data.placement import to_host
from pipelines.graph.graph import Graph
from pipelines.graph.iteration import Array, Iterated, Problem, Told, iterate
from pipelines.graph.variants.matrices import MatrixStep


def run(name: str, problem: Problem, told: Told) -> Iterated:
    """PageRank by products of matrices; see ``pipelines.graph.variants.run``."""
    library = OnGPU() if problem.device == "gpu" else OnCPU()
    return iterate(lambda: MatrixStep(name, library, problem), problem, told)


class OnCPU:
    """numpy and scipy.sparse."""

    def __init__(self) -> None:
        from scipy import sparse

        self._xp: Any = np
        self._sparse: Any = sparse

    def array(self, values: NDArray[Any]) -> Any:
        return self._xp.asarray(values)

    def host(self, values: Any) -> Array:
        return to_host(values)

    def sparse(self, graph: Graph) -> Any:
        rows, n = graph.rows, graph.n_nodes
        weight = np.ones(rows.n_edges) if rows.weight is None else rows.weight
        parts = (self.array(weight), self.array(rows.source), self._xp.asarray(rows.first))
        return self._sparse.csr_matrix(parts, shape=(n, n))

    def dense(self, graph: Graph) -> Any:
        return self.sparse(graph).toarray()

    def sparse_diagonal(self, values: Any) -> Any:
        return self._sparse.diags(values).tocsr()

    def dense_diagonal(self, values: Any) -> Any:
        return self._xp.diag(values)

    def sparse_columns(self, matrix: Any, factors: Any) -> Any:
        scaled = matrix.copy()
        scaled.data *= factors[matrix.indices]
        return scaled

    def nbytes(self, array: Any) -> int:
        if self._sparse.issparse(array):
            return int(array.data.nbytes + array.indices.nbytes + array.indptr.nbytes)
        return int(array.nbytes)


class OnGPU(OnCPU):
    """cupy and cupyx.scipy.sparse."""

    def __init__(self) -> None:
        import cupy
        from cupyx.scipy import sparse

        self._xp, self._sparse = cupy, sparse
