"""What a run of PageRank is about: a file of edges or a random graph, named and fingerprinted."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pipelines.graph.files import EdgeFile
from pipelines.graph.random_graphs import RandomGraph


@dataclass(frozen=True)
class GraphSource:
    """Edges that are yet to be read or drawn."""

    edges: EdgeFile | RandomGraph

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
        """What a run records about it."""
        described = {"name": self.name, "fingerprint": self.fingerprint}
        if isinstance(self.edges, EdgeFile):
            return described | {"path": self.edges.path, "weight": self.edges.weight}
        return described
