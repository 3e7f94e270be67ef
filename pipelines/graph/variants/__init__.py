"""The ways to compute PageRank, in one table; each gives the same ranks.

A new one is a file with ``run`` and a line in ``VARIANTS``.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from pipelines.errors import InputError, opt

if TYPE_CHECKING:
    from pipelines.graph.iteration import Iterated, Problem, Told

DEFAULT = "pull"
SCALINGS = ("inside", "product", "broadcast")
LAYOUTS = ("sparse", "dense")


@dataclass(frozen=True)
class Variant:
    """One way to compute PageRank.

    Attributes
    ----------
    about : str
        On one line.
    file : str
        The module whose ``run`` carries it out.
    needs : tuple of str
        Modules that must be installed.
    devices : tuple of str
        Where it runs: "cpu", "gpu".
    matrices : int
        How many dense matrices of n × n float64 it holds at once while it prepares.
    """

    name: str
    about: str
    file: str
    needs: tuple[str, ...]
    devices: tuple[str, ...]
    matrices: int = 0

    def dense_bytes(self, n_nodes: int) -> int:
        """Of its dense matrices."""
        return self.matrices * 8 * n_nodes**2

    def lacks(self, device: str) -> str | None:
        """Why it cannot be run here on a device, or None."""
        if device not in self.devices:
            return f"it runs on {' and '.join(self.devices)} only"
        return missing(self.needs)


def missing(needs: Iterable[str]) -> str | None:
    """Which of some modules is not installed, in words, or None."""
    absent = (name for name in needs if importlib.util.find_spec(name) is None)
    return next((f"{name} is not installed" for name in absent), None)


_ABOUT = {
    "inside": "ranks are scaled before each product",
    "product": "the matrix is scaled before, by a product with a diagonal matrix",
    "broadcast": "the matrix is scaled before, column by column",
}
_LIBRARIES = {
    "scipy": (("scipy",), ("cpu",)),
    "cupy": (("cupy",), ("gpu",)),
    "torch": (("torch",), ("cpu", "gpu")),
}


def _with_matrices() -> list[Variant]:
    files = {"scipy": "on_scipy", "cupy": "on_scipy", "torch": "on_torch"}
    return [
        Variant(
            f"{library}-{layout}-{scaling}",
            f"{layout} matrix in {library}; {_ABOUT[scaling]}",
            f"pipelines.graph.variants.{files[library]}",
            needs,
            devices,
            {"inside": 1, "broadcast": 2, "product": 3}[scaling] if layout == "dense" else 0,
        )
        for library, (needs, devices) in _LIBRARIES.items()
        for layout in LAYOUTS
        for scaling in SCALINGS
    ]


VARIANTS = {
    variant.name: variant
    for variant in (
        Variant(
            "pull",
            "compressed rows by destination, float32 contributions, float64 sums, in numba",
            "pipelines.graph.variants.pull",
            ("numba",),
            ("cpu",),
        ),
        Variant(
            "cugraph",
            "pylibcugraph's own",
            "pipelines.graph.variants.cugraph",
            ("pylibcugraph", "cupy"),
            ("gpu",),
        ),
        *_with_matrices(),
    )
}


def find_variant(name: str, device: str, n_nodes: int, memory_bytes: int | None) -> Variant:
    """The variant of a name, if it can be run.

    Raises
    ------
    InputError
        There is none, something it needs is missing, or its matrices do not fit in memory.
    """
    if name not in VARIANTS:
        near = get_close_matches(name, VARIANTS, n=1)
        hint = f"did you mean {near[0]}?" if near else "--help lists them"
        raise InputError(
            f"{opt('variant')} must be one of {', '.join(VARIANTS)}, got {name!r}; {hint}"
        )
    variant = VARIANTS[name]
    why = variant.lacks(device) or too_large(variant, n_nodes, memory_bytes)
    if why:
        other = "pull needs no more than numba" if device == "cpu" else "choose another"
        raise InputError(
            f"{opt('variant')} must be one that can run on this {device}, got {name}: {why}; "
            f"{other}"
        )
    return variant


def choose_variants(
    name: str, device: str, n_nodes: int, memory_bytes: int | None
) -> tuple[list[str], dict[str, str]]:
    """The variants that ``name`` means on a device, and those left out, with the reason.

    Parameters
    ----------
    name : a variant; "all" that can be run; or "auto", the best that can: ``pull`` on a CPU, on a
        GPU cuGraph, else a sparse matrix in cupy, else in torch

    Raises
    ------
    InputError
        As ``find_variant`` does.
    """
    if name == "all":
        why = {
            variant.name: variant.lacks(device) or too_large(variant, n_nodes, memory_bytes)
            for variant in VARIANTS.values()
        }
        return [one for one in why if why[one] is None], {k: v for k, v in why.items() if v}
    if name == "auto":
        of_gpu = ("cugraph", "cupy-sparse-broadcast", "torch-sparse-broadcast")
        able = [one for one in of_gpu if VARIANTS[one].lacks(device) is None]
        name = able[0] if device == "gpu" and able else DEFAULT
    return [find_variant(name, device, n_nodes, memory_bytes).name], {}


def too_large(variant: Variant, n_nodes: int, memory_bytes: int | None) -> str | None:
    """Why its matrices do not fit into so many bytes, or None."""
    wanted = variant.dense_bytes(n_nodes)
    if memory_bytes is None or wanted <= memory_bytes:
        return None
    return f"it takes {wanted / 2**30:.1f} GiB of {memory_bytes / 2**30:.1f} GiB"


def run(
    variant: Variant, problem: Problem, told: Told = lambda iteration, change: None
) -> Iterated:
    """Iterate with one variant; ``told`` hears the number of each iteration and its change."""
    iterated: Iterated = importlib.import_module(variant.file).run(variant.name, problem, told)
    return iterated
