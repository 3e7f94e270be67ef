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
        ("none.csv", "personalise must be an existing .csv, .tsv, .parquet file"),
        (pd.Series([1.0, 1.0], ["a", "a"]), "personalise must name a node once, 'a'"),
    ],
)
def test_bad_vectors_are_one_line(personal, message):
    with pytest.raises(InputError, match=message) as caught:
        compute_pagerank(EDGES, personalise=personal)
    assert "\n" not in str(caught.value)


def test_a_file_that_holds_no_numbers_is_refused(tmp_path):
    path = tmp_path / "jump.csv"
    path.write_text("node,weight\na,much\n")
    with pytest.raises(InputError, match="personalise must be a table of nodes and numbers"):
        compute_pagerank(EDGES, personalise=path)


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
