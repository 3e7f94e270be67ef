"""PageRank by products of a matrix and vectors, in any library of arrays.

The study's three ways to treat the number of links that leave a page: scale the ranks inside the
loop, or move the scaling out of it, into the matrix, which is one product with a diagonal matrix
(n³ where it is dense) or one multiplication of every column (n²).
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pipelines.graph.graph import Graph
from pipelines.graph.iteration import Array, Problem, rounding
from pipelines.graph.walk import inverse


class Library(Protocol):
    """What a library of arrays must offer; its arrays know ``@``, ``*``, ``+``, ``-`` and abs."""

    def array(self, values: NDArray[Any]) -> Any:
        """On its device."""
        ...

    def host(self, values: Any) -> Array: ...

    def sparse(self, graph: Graph) -> Any:
        """Weights in compressed rows: row i has the edges that point at node i."""
        ...

    def dense(self, graph: Graph) -> Any:
        """The same with all n × n entries."""
        ...

    def sparse_diagonal(self, values: Any) -> Any: ...

    def dense_diagonal(self, values: Any) -> Any: ...

    def sparse_columns(self, matrix: Any, factors: Any) -> Any:
        """Every column of a matrix times its factor."""
        ...

    def nbytes(self, array: Any) -> int: ...


class MatrixStep:
    """The step of every variant LIBRARY-LAYOUT-SCALING."""

    def __init__(self, name: str, library: Library, problem: Problem):
        _, layout, scaling = name.split("-")
        graph, walk = problem.graph, problem.walk
        out = inverse(graph.out_weight)
        self.roundoff = rounding(graph.rows)
        self._library, self._walk = library, walk
        self._sinks = library.array((out == 0).astype(np.float64))
        self._jump = library.array(walk.jump)
        self._ranks = library.array(problem.start)
        factors = library.array(out)
        dense = layout == "dense"
        matrix = library.dense(graph) if dense else library.sparse(graph)
        if scaling == "product":
            diagonal = library.dense_diagonal if dense else library.sparse_diagonal
            matrix = matrix @ diagonal(factors)
        elif scaling == "broadcast":
            matrix = matrix * factors if dense else library.sparse_columns(matrix, factors)
        self._factors = factors[:, None] if scaling == "inside" else None
        self._matrix = matrix

    @property
    def nbytes(self) -> int:
        held = (self._matrix, self._ranks, self._jump, self._sinks, self._factors)
        return sum(self._library.nbytes(array) for array in held if array is not None)

    def advance(self) -> Array:
        old, library = self._ranks, self._library
        lost = library.host(self._sinks @ old)
        onto_jump, everywhere = map(library.array, self._walk.shares(lost))
        scaled = old if self._factors is None else self._factors * old
        pulled = self._matrix @ scaled
        self._ranks = self._walk.alpha * pulled + (self._jump * onto_jump + everywhere)
        return library.host(abs(self._ranks - old).sum(0))

    def ranks(self) -> Array:
        return self._library.host(self._ranks)
