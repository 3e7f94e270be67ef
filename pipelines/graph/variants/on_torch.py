"""Matrices in PyTorch, on a CPU or a GPU."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pipelines.graph.graph import Graph
from pipelines.graph.iteration import Array, Iterated, Problem, Told, iterate
from pipelines.graph.variants.matrices import MatrixStep


def run(name: str, problem: Problem, told: Told) -> Iterated:
    """PageRank by products of matrices; see ``pipelines.graph.variants.run``."""
    library = OnTorch("cuda" if problem.device == "gpu" else "cpu")
    with torch.no_grad():
        return iterate(lambda: MatrixStep(name, library, problem), problem, told)


class OnTorch:
    """torch on one device."""

    def __init__(self, device: str) -> None:
        self._device = device

    def array(self, values: NDArray[Any]) -> Any:
        return torch.from_numpy(np.array(values)).to(self._device)

    def host(self, values: Any) -> Array:
        return np.asarray(values.cpu().numpy())

    def sparse(self, graph: Graph) -> Any:
        rows, n = graph.rows, graph.n_nodes
        weight = np.ones(rows.n_edges) if rows.weight is None else rows.weight
        short = rows.n_edges < 2**31  # MKL and cuSPARSE are faster with them
        first, source = rows.first.astype(np.int32) if short else rows.first, rows.source
        return self._compressed(
            self.array(first),
            self.array(source if short else source.astype(np.int64)),
            self.array(weight),
            n,
        )

    def dense(self, graph: Graph) -> Any:
        return self.sparse(graph).to_dense()

    def sparse_diagonal(self, values: Any) -> Any:
        n = len(values)
        places = torch.arange(n + 1, dtype=torch.int32, device=self._device)
        return self._compressed(places, places[:-1].clone(), values, n)

    def dense_diagonal(self, values: Any) -> Any:
        return torch.diag(values)

    def sparse_columns(self, matrix: Any, factors: Any) -> Any:
        source = matrix.col_indices()
        return self._compressed(
            matrix.crow_indices(), source, matrix.values() * factors[source.long()], len(factors)
        )

    def nbytes(self, array: Any) -> int:
        if array.layout != torch.sparse_csr:
            return int(array.nbytes)
        parts = (array.crow_indices(), array.col_indices(), array.values())
        return sum(int(part.nbytes) for part in parts)

    def _compressed(self, first: Any, source: Any, weight: Any, n: int) -> Any:
        with _beta():
            return torch.sparse_csr_tensor(first, source, weight, (n, n))


@contextmanager
def _beta() -> Iterator[None]:
    """torch says once for a process that its sparse tensors are young; we know."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse (CSR tensor|invariant checks)", UserWarning)
        yield
