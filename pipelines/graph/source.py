"""Edges that are yet to be read or drawn: a file, or a random graph; named and fingerprinted."""

from __future__ import annotations

import ctypes
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from pipelines.graph.edges import names_in, number_nodes
from pipelines.graph.files import EdgeFile, Part
from pipelines.graph.random_graphs import RandomGraph


@dataclass(frozen=True)
class EdgeSource:
    """A file, read in parts, or a random graph, drawn in blocks.

    text : whether names are text; else whole numbers, where the file does not say
    """

    edges: EdgeFile | RandomGraph
    text: bool = False

    @property
    def name(self) -> str:
        """The file's name, or what was drawn."""
        if isinstance(self.edges, EdgeFile):
            return Path(self.edges.path).name
        graph = self.edges
        return f"{graph.kind} of {graph.n_nodes:,} nodes, degree {graph.degree:g}"

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the file's bytes and how they are read, or of the random graph's numbers."""
        digest = hashlib.sha256()
        if isinstance(self.edges, RandomGraph):
            digest.update(repr(self.edges).encode())
            return digest.hexdigest()
        file = self.edges
        digest.update(repr((file.kind, file.source, file.target, file.weight)).encode())
        whole = Path(file.path)
        for path in sorted(whole.glob("*.parquet")) if whole.is_dir() else [whole]:
            with path.open("rb") as content:
                while block := content.read(1 << 22):
                    digest.update(block)
        return digest.hexdigest()

    def describe(self) -> dict[str, Any]:
        """Return the JSON-serialisable metadata of the graph."""
        described = {"name": self.name, "fingerprint": self.fingerprint}
        if isinstance(self.edges, EdgeFile):
            return described | {"path": self.edges.path, "weight": self.edges.weight}
        return described

    def parts(self, part_bytes: int) -> list[Part | int]:
        """Return pieces of about ``part_bytes``, or the numbers of the blocks."""
        if isinstance(self.edges, RandomGraph):
            return list(range(self.edges.n_blocks))
        return list(self.edges.parts(part_bytes))

    def names(self, part: Part | int) -> pa.Array:
        """Return the nodes that occur in a part of a file."""
        assert isinstance(self.edges, EdgeFile)
        assert isinstance(part, Part)
        with trim_memory():
            return names_in(self.edges.read(part, self.text))

    def read(
        self, part: Part | int, nodes: pd.Index
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64] | None]:
        """Return sources, targets and weights of a part, between numbered nodes."""
        if isinstance(self.edges, RandomGraph):
            assert isinstance(part, int)
            return (*self.edges.block(part), None)
        assert isinstance(part, Part)
        with trim_memory():
            block = self.edges.read(part, self.text)
            if not len(block.source):
                none = np.empty(0, np.int32)
                return none, none, None if block.weight is None else np.empty(0)
            edges = number_nodes([block], nodes)
            return edges.source, edges.target, edges.weight


@contextmanager
def trim_memory() -> Iterator[None]:
    """Give free memory back to the system at the end: pyarrow's and the C library's.

    They keep hundreds of MB by default, and Dask pauses a worker for what its process holds.
    """
    try:
        yield
    finally:
        pa.default_memory_pool().release_unused()
        if malloc_trim := _malloc_trim():
            malloc_trim(0)


@lru_cache(maxsize=1)
def _malloc_trim() -> Any:
    """Return glibc's; other C libraries have none."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
