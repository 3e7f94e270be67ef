"""Edge lists in every form, in parts of any size."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pipelines.errors import InputError
from pipelines.graph import compute_pagerank
from pipelines.graph.edge_files import open_edges
from pipelines.graph.graph import graph_of
from pipelines.graph.random_graphs import RandomGraph

SOURCE, TARGET = RandomGraph("erdos", 200, 6, 3).block(0)
WEIGHT = np.round(np.random.default_rng(0).random(len(SOURCE)), 6)


def _write(folder, suffix, text_names):
    """The same edges in a file of each kind."""
    prefix = "n" if text_names else ""
    path = folder / f"edges{suffix}"
    frame = pd.DataFrame(
        {
            "from": [f"{prefix}{i}" for i in SOURCE],
            "to": [f"{prefix}{i}" for i in TARGET],
            "how much": WEIGHT,
        }
    )
    if not text_names:
        frame = frame.astype({"from": np.int64, "to": np.int64})
    if suffix == ".parquet":
        frame.to_parquet(path, row_group_size=100)
    elif suffix == ".txt":
        rows = frame.to_csv(sep=" ", header=False, index=False).replace(" ", "  \t ")
        path.write_text("# Directed graph\n# FromNodeId  ToNodeId\n" + rows + "\n# the end\n")
    else:
        frame.to_csv(path, sep="," if suffix == ".csv" else "\t", index=False)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".txt", ".parquet"])
@pytest.mark.parametrize("text_names", [False, True])
def test_every_form_gives_the_same_graph(tmp_path, suffix, text_names):
    path = _write(tmp_path, suffix, text_names)
    weight = "3" if suffix == ".txt" else "how much"
    ours = compute_pagerank(path, weight=weight, tol=1e-12).frame()["rank"]
    expected = compute_pagerank((SOURCE, TARGET, WEIGHT), tol=1e-12).frame()["rank"]
    if text_names:
        expected.index = pd.Index([f"n{name}" for name in expected.index])
    assert len(ours) == len(expected)
    assert np.abs(ours - expected[ours.index]).sum() < 1e-11


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".csv", ".txt"])
@pytest.mark.parametrize("part_bytes", [7, 64, 1000, 1 << 20])
def test_parts_of_any_size_hold_every_row_once(tmp_path, suffix, part_bytes):
    file = open_edges(_write(tmp_path, suffix, False))
    blocks = [file.read(part) for part in file.parts(part_bytes)]
    ends = [np.asarray(block.names)[block.ends] for block in blocks]
    np.testing.assert_array_equal(np.concatenate(ends, axis=1), [SOURCE, TARGET])


def test_a_folder_of_parquet_is_one_list(tmp_path):
    folder = tmp_path / "edges.parquet"
    folder.mkdir()
    half = len(SOURCE) // 2
    for i, part in enumerate((slice(0, half), slice(half, None))):
        frame = pd.DataFrame({"a": SOURCE[part], "b": TARGET[part]})
        frame.to_parquet(folder / f"part.{i}.parquet")
    assert graph_of(folder).n_edges == len(SOURCE)


def test_names_that_are_text_further_down_are_text_from_the_top(tmp_path):
    path = tmp_path / "edges.csv"
    path.write_text("a,b\n007,8\n8,x\n")
    assert list(graph_of(path).nodes) == ["007", "8", "x"]


def test_names_of_any_kind():
    names = np.array(["NA", "null", "", "ü", "a b"])
    graph = graph_of((names, np.roll(names, 1)))
    assert sorted(graph.nodes) == sorted(names)
    days = pd.date_range("2026-01-01", periods=3)
    assert list(compute_pagerank(pd.DataFrame({"a": days, "b": days[[1, 2, 0]]})).nodes) == list(
        days
    )
    mixed = pd.DataFrame({"user": [1, 2], "page": pd.Categorical(["x", "y"])})
    assert list(graph_of(mixed).nodes) == ["1", "2", "x", "y"]


def test_a_node_called_na_is_read_from_a_file(tmp_path):
    path = tmp_path / "edges.csv"
    path.write_text('from,to\nNA,"x,y"\nnull,NA\n')
    assert list(graph_of(path).nodes) == ["NA", "null", "x,y"]


def test_columns_are_chosen_by_name(tmp_path):
    path = tmp_path / "edges.csv"
    path.write_text("when,to,from\n1,2,3\n4,5,6\n")
    graph = graph_of(path, source="from", target="to")
    assert list(graph.nodes) == [2, 3, 5, 6]
    assert graph.rows.source.tolist() == [1, 3]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("edges.xml", "", "edges can read .csv, .tsv, .txt, .parquet files, got"),
        ("none.csv", None, "edges must be an existing file"),
        ("edges.parquet", "no parquet", "edges cannot be read: .* is no valid .parquet file"),
    ],
)
def test_bad_files_are_one_line(tmp_path, name, text, message):
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        compute_pagerank(path)
    assert "\n" not in str(caught.value)


def test_a_missing_column_is_named_with_the_nearest(tmp_path):
    path = tmp_path / "edges.csv"
    path.write_text("from,to,weight\n1,2,3\n")
    with pytest.raises(InputError, match=r"^weight must be .* got 'wieght'; did you mean 'weight'"):
        compute_pagerank(path, weight="wieght")
    with pytest.raises(InputError, match=r"^source must be the name of a column"):
        compute_pagerank(path, source="who")
