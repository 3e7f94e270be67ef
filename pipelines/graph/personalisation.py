"""Personalisation vectors over the nodes, as the user gives them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from pipelines.errors import InputError, opt
from pipelines.graph.edges import short_repr
from pipelines.graph.iteration import RandomSurfer

SUFFIXES = (".csv", ".tsv", ".parquet")


def surfer_on(
    nodes: pd.Index, alpha: float, dangling: str, personalise: Any
) -> tuple[RandomSurfer, list[str]]:
    """Return the surfer on these nodes, and the names of the vectors.

    Parameters
    ----------
    personalise : None; a mapping or Series from nodes to numbers of at least 0; a frame with nodes
        as its index and a column for each vector; or the path of a table whose first column names
        nodes and whose others are vectors, where what is missing is 0

    Raises
    ------
    InputError
        As ``RandomSurfer`` does; the file cannot be read, a node is unknown or stands there twice,
        a number is negative, infinite or NaN, or a vector is 0 everywhere.
    """
    if personalise is None:
        return RandomSurfer(len(nodes), alpha, None, dangling), ["rank"]
    frame = _frame(personalise)
    values = frame.to_numpy(dtype=np.float64)
    if frame.index.has_duplicates:
        twice = frame.index[frame.index.duplicated()][0]
        raise InputError(
            f"{opt('personalise')} must name a node once, {short_repr(twice)} stands there twice"
        )
    wanted = frame.index
    if nodes.dtype.kind in "OTU" or str(nodes.dtype) in ("str", "string"):
        wanted = wanted.map(str)  # 7 is the node '7' where names are text
    positions = nodes.get_indexer(wanted)
    unknown = np.flatnonzero(positions < 0)
    if len(unknown):
        raise InputError(
            f"{opt('personalise')} must name nodes of the graph, got "
            f"{short_repr(frame.index[unknown[0]])}, which is none; drop it or add an edge"
        )
    bad = np.argwhere(~(np.isfinite(values) & (values >= 0)))
    if len(bad):
        row, column = bad[0]
        raise InputError(
            f"{opt('personalise')} must hold finite numbers of at least 0, got "
            f"{values[row, column]} for {short_repr(frame.index[row])}; mend it"
        )
    vectors = np.zeros((len(nodes), values.shape[1]))
    vectors[positions] = values
    sums = vectors.sum(axis=0)
    names = [str(name) for name in frame.columns]
    if not (sums > 0).all():
        empty = names[int(np.argmin(sums))]
        raise InputError(
            f"{opt('personalise')} must have a number above 0 in every vector, "
            f"{short_repr(empty)} has none; name a node to jump to"
        )
    return RandomSurfer(len(nodes), alpha, vectors / sums, dangling), names


def _frame(given: Any) -> pd.DataFrame:
    if isinstance(given, str | Path):
        path = Path(given)
        if path.suffix.lower() not in SUFFIXES or not path.is_file():
            raise InputError(
                f"{opt('personalise')} must be an existing {', '.join(SUFFIXES)} file, got "
                f"'{path}'; its first column names nodes, each other is a vector"
            )
        try:
            if path.suffix.lower() == ".parquet":
                table = pd.read_parquet(path)
            else:
                table = pd.read_csv(path, sep="\t" if path.suffix.lower() == ".tsv" else ",")
            given = table.set_index(table.columns[0]).astype(np.float64).fillna(0.0)
        except (OSError, ValueError, pa.ArrowException) as error:
            reason = " ".join(str(error).split())
            raise InputError(
                f"{opt('personalise')} must be a table of nodes and numbers, '{path}' is not "
                f"({reason}); mend it"
            ) from None
    if isinstance(given, Mapping):
        given = pd.Series(dict(given))
    if isinstance(given, pd.Series):
        given = given.to_frame("personalised" if given.name is None else given.name)
    if not isinstance(given, pd.DataFrame) or not given.shape[1] or not len(given):
        raise InputError(
            f"{opt('personalise')} must hold numbers by node: a file, a mapping, or a pandas "
            f"Series or frame; got {type(given).__name__} without any"
        )
    return given
