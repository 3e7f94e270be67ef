"""Where to jump."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pipelines.errors import InputError
from pipelines.graph import compute_pagerank

EDGES = pd.DataFrame({"from": ["a", "b", "c", "c"], "to": ["b", "c", "a", "b"]})


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_a_file_of_vectors(tmp_path, suffix):
    frame = pd.DataFrame({"node": ["a", "c"], "first": [1.0, 3.0], "second": [np.nan, 2.0]})
    path = tmp_path / f"jump{suffix}"
    if suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, sep="," if suffix == ".csv" else "\t", index=False)
    ranks = compute_pagerank(EDGES, personalise=path, tol=1e-12)
    assert ranks.vectors == ["first", "second"]
    by_hand = compute_pagerank(EDGES, personalise={"a": 1, "c": 3}, tol=1e-12)
    assert np.allclose(ranks.values[:, 0], by_hand.values[:, 0], atol=1e-12)
    assert np.allclose(ranks.values.sum(axis=0), 1)


def test_numbers_name_nodes_that_are_text():
    edges = pd.DataFrame({"from": ["1", "x"], "to": ["x", "2"]})
    by_number, by_text = (
        compute_pagerank(edges, personalise={1: 1}),
        compute_pagerank(edges, personalise={"1": 1}),
    )
    assert (by_number.values == by_text.values).all()


@pytest.mark.parametrize(
    ("personal", "message"),
    [
        ({"d": 1.0}, "personalise must name nodes of the graph, got 'd', which is none"),
        ({"a": -1.0}, "personalise must hold finite numbers of at least 0, got -1.0 for 'a'"),
        ({"a": np.nan}, "personalise must hold finite numbers of at least 0, got nan"),
        ({"a": 0.0}, "personalise must have a number above 0 in every vector"),
        ({}, "personalise must hold numbers by node"),
        (3, "personalise must hold numbers by node"),
        ("none.csv", "personalise must be an existing .csv, .tsv, .txt, .parquet file"),
        (pd.Series([1.0, 1.0], ["a", "a"]), "personalise must name a node once, 'a'"),
    ],
)
def test_bad_vectors_are_one_line(personal, message):
    with pytest.raises(InputError, match=message) as caught:
        compute_pagerank(EDGES, personalise=personal)
    assert "\n" not in str(caught.value)


HALF = {"a": 1.0, "c": 3.0}


@pytest.mark.parametrize(
    "content",
    [
        "node,topic\na,1\nc,3\n",
        "a,1\nc,3\n",
        "node;topic\na;0,5\nc;1,5\n",
        "# of topics\na 1\nc 3\n",
        ",node,topic\n0,a,1\n1,c,3\n",
        "node,2020\na,1\nc,3\n",
        "node,topic\n a ,1\n c,3\nb,\n",
        '"node", "topic"\n"a", "1"\n"c", "3"\n',
        "node,topic\na,5e-324\nc,1.5e-323\n",
        "node,topic\ra,5e307\rc,1.5e308\r",
        "node,topic\na,1\nc,3\n".encode("utf-16"),
    ],
)
def test_a_file_of_vectors_however_it_is_written(content, tmp_path):
    path = tmp_path / "jump.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    ranks = compute_pagerank(EDGES, personalise=path, tol=1e-12)
    by_hand = compute_pagerank(EDGES, personalise=HALF, tol=1e-12)
    np.testing.assert_allclose(ranks.values, by_hand.values, atol=1e-12)


@pytest.mark.parametrize(
    ("nodes", "names"),
    [
        (["NA", "b", "nan"], ["NA", "nan"]),
        (["00501", "b", "501"], ["00501", "501"]),
        (["1", "b", "x"], ["1", "x"]),
        ([1, 2, 3], ["1.0", "+3"]),
        ([0, 1, 2], ["0", "2"]),
        ([1.5, 2.5, 3.0], ["1.50", "3"]),
        (["ä", "b", "ö"], ["ä", "ö"]),
    ],
)
def test_names_in_a_file_of_vectors_are_those_of_the_graph(nodes, names, tmp_path):
    a, b, c = nodes
    path = tmp_path / "jump.txt"
    path.write_text(f"{names[0]}\t1\n{names[1]}\t3\n")
    ranks = compute_pagerank(([a, b, c, c], [b, c, a, b]), personalise=path, tol=1e-12)
    by_hand = compute_pagerank(EDGES, personalise=HALF, tol=1e-12)
    np.testing.assert_allclose(ranks.frame().loc[nodes], by_hand.values, atol=1e-12)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("node,weight\na,much\n", "must be a table of nodes and numbers, .* 'much' in line 2"),
        ("a,1\nb,5%\n", "must be a table of nodes and numbers, .* '5%' in line 2"),
        ("node,v\na,1\nd,2\n", "must name nodes of the graph, got 'd', which is none"),
        ("d,1\na,2\n", "must name nodes of the graph, got 'd', which is none"),
        ("node,v\na,1\na ,2\n", "must name a node once, 'a'"),
        ("node,v\na,nan\n", "must hold finite numbers of at least 0, got nan for 'a'"),
        ("node,v,v\na,1,2\n", "must be a table .* two columns have one name"),
        ("node\na\n", "must hold numbers by node"),
        ("node,v\n", "must name nodes of the graph, got 'node'|must hold numbers"),
        ("", "must be a table of nodes and numbers, .* has no row"),
    ],
)
def test_bad_files_of_vectors_are_one_line(content, message, tmp_path):
    path = tmp_path / "jump.csv"
    path.write_text(content)
    with pytest.raises(InputError, match=message) as caught:
        compute_pagerank(EDGES, personalise=path)
    assert "\n" not in str(caught.value)


def test_what_was_noticed_in_a_file_of_vectors_is_told(tmp_path):
    path = tmp_path / "jump.csv"
    path.write_text(",node,topic\n0,a,1\n1,c,3\n" + "2,b\n")
    assert compute_pagerank(EDGES, personalise=path).notes == (
        "jump.csv: 1 row of fewer than 3 cells, the first in line 4, taken as lacking the last",
        "jump.csv: the first column, which counts the rows, left out",
        "jump.csv: 1 empty cell taken for 0",
    )
    path.write_text("a,1\nc,3\n")
    assert compute_pagerank(EDGES, personalise=path).notes == ("jump.csv: no header line",)


def test_top_gives_the_highest_with_names():
    ranks = compute_pagerank(EDGES, tol=1e-12)
    assert ranks.top(2).index.tolist() == ["b", "c"]
    assert ranks.top(2).iloc[0] == ranks.values.max()


def test_a_vector_may_have_any_unit():
    edges = np.array([[0, 1], [1, 2], [2, 0], [1, 0]])
    usual = compute_pagerank(edges, personalise={0: 1.0, 1: 1.0})
    for unit in (1e308, 1e-300):
        ranks = compute_pagerank(edges, personalise={0: unit, 1: unit})
        np.testing.assert_allclose(ranks.values, usual.values, rtol=1e-12)
