"""Edge lists as programs and people write them: one graph, or a line that says why not."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from pipelines.errors import InputError
from pipelines.graph import compute_pagerank
from pipelines.graph.distributed import distributed_pagerank
from pipelines.graph.edge_files import open_edges
from pipelines.graph.iteration import StoppingRule
from tests.graph.families import reference

EDGES = (("a", "b"), ("b", "c"), ("c", "a"), ("c", "b"))
RANKS = reference(3, (np.array([0, 1, 2, 2]), np.array([1, 2, 0, 1])))
LETTERS, NUMBERS = dict(zip("abc", RANKS, strict=True)), dict(zip((1, 2, 3), RANKS, strict=True))


DAYS = ("2026-01-01", "2026-02-01", "2026-03-01")


def lines(delimiter, header="", names="123", end="\n"):
    """The four edges as text."""
    of = dict(zip("abc", names, strict=True))
    rows = "".join(f"{of[a]}{delimiter}{of[b]}{end}" for a, b in EDGES)
    return f"{header}{end}{rows}" if header else rows


def ranked(path, content, **how):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return dict(compute_pagerank(path, tol=1e-12, **how).frame()["rank"])


@pytest.mark.parametrize("suffix", [".csv", ".txt"])
@pytest.mark.parametrize(
    ("content", "nodes"),
    [
        (lines(", ", "source, target", "abc"), "abc"),
        (lines(" ,", "source ,target", "abc"), "abc"),
        (lines(",", "source,target", ("a", " b ", "c\t")), "abc"),
        ('"source", "target"\n"a", "b"\n"b", "c"\n"c", "a"\n"c", "b"\n', "abc"),
        ('from,to\n"a", "b"\nb ,"c" \n  "c",a\n"c","b"\n', "abc"),
        (lines("; ", "from; to", "abc"), "abc"),
        (lines("|", "from|to", "abc"), "abc"),
        (lines("\t", "from\tto", "abc"), "abc"),
        (lines("   ", "from  to", "abc"), "abc"),
        ("source,target\n1,2.0\n2,3.0\n3,1.0\n3,2.0\n", (1, 2, 3)),
        ("source,target\n+1,2\n2,3e0\n3,1.00\n3.,2\n", (1, 2, 3)),
        (lines(", "), (1, 2, 3)),
        (lines(","), (1, 2, 3)),
        (lines(" \t "), (1, 2, 3)),
        ("  1 2\n2  3 \n\t3 1\t\n3 2", (1, 2, 3)),
        ("#ai b\nb #ml\n#ml #ai\n#ml b\n", ("#ai", "b", "#ml")),
        ("%ai\tb\nb\t%ml\n%ml\t%ai\n%ml\tb\n", ("%ai", "b", "%ml")),
        ("# tags\n#ai b\nb #ml\n# half\n#ml #ai\n#ml b\n", ("#ai", "b", "#ml")),
        (lines("\t", "FromNodeId\tToNodeId"), (1, 2, 3)),
        ("# x, y\n" + lines(",", "source,target"), (1, 2, 3)),
        ("%x\n" + lines(",", "u,v"), (1, 2, 3)),
        ("# a graph\n1 2\n2 3\n# half\n#the rest\n3 1\n% end\n3 2\n", (1, 2, 3)),
        ("\ufeff# nodes\n" + lines(" "), (1, 2, 3)),
        ("\ufeff" + lines(","), (1, 2, 3)),
        (lines(",", "source,target").encode("utf-16"), (1, 2, 3)),
        (lines("\t", end="\r\n").encode("utf-16-le"), (1, 2, 3)),
        (lines(",", names="abc"), "abc"),
        (lines(",", "source,target", end="\r"), (1, 2, 3)),
        (lines(" ", end="\r"), (1, 2, 3)),
        (lines(",", "source,target", end="\r\n"), (1, 2, 3)),
        ("\n \n" + lines(",", "source,target"), (1, 2, 3)),
        ("\n" + lines(" ") + "\n \n", (1, 2, 3)),
        ("sep=;\n" + lines(";", "from;to"), (1, 2, 3)),
        (",source,target\n0,1,2\n1,2,3\n2,3,1\n3,3,2\n", (1, 2, 3)),
        ("Unnamed: 0,u,v\n0,1,2\n1,2,3\n2,3,1\n3,3,2\n", (1, 2, 3)),
        ('"" "from" "to"\n"1" "a" "b"\n"2" "b" "c"\n"3" "c" "a"\n"4" "c" "b"\n', "abc"),
        ('"from" "to"\n"1" "a" "b"\n"2" "b" "c"\n"3" "c" "a"\n"4" "c" "b"\n', "abc"),
        ("index,u,v\n0,1,2\n1,2,3\n2,3,1\n3,3,2\n", (1, 2, 3)),
        ("to,from\n2,1\n3,2\n1,3\n2,3\n", (1, 2, 3)),
        (
            "Id,Source,Target,Type\n9,1,2,Directed\n8,2,3,Directed\n7,3,1,Directed\n6,3,2,Directed\n",
            (1, 2, 3),
        ),
        (
            "%%MatrixMarket matrix coordinate pattern general\n% of a book\n3 3 4\n" + lines(" "),
            (1, 2, 3),
        ),
        ("from,to\nNew York,Bonn\nBonn,Ulm\nUlm,New York\nUlm,Bonn\n", ("New York", "Bonn", "Ulm")),
        ("New York\tBonn\nBonn\tUlm\nUlm\tNew York\nUlm\tBonn\n", ("New York", "Bonn", "Ulm")),
        (
            "from;to\nKöln;Bonn\nBonn;Ulm\nUlm;Köln\nUlm;Bonn\n".encode("cp1252"),
            ("Köln", "Bonn", "Ulm"),
        ),
        (
            'from,to\n"a\nx",b\nb,"c, ""d"""\n"c, ""d""","a\nx"\n"c, ""d""",b\n',
            ("a\nx", "b", 'c, "d"'),
        ),
        ("from,to\nNA,nan\nnan,null\nnull,NA\nnull,nan\n", ("NA", "nan", "null")),
        ("from,to\n007,8\n8,x\nx,007\nx,8\n", ("007", "8", "x")),
        ("from,to\n00501,90210\n90210,0x1\n0x1,00501\n0x1,90210\n", ("00501", "90210", "0x1")),
        (lines(",", "u,v", DAYS), DAYS),
        ("from,to\n1.5,2\n2.00,2.50\n2.5,1.50\n2.5,2\n", ("1.5", "2", "2.5")),
    ],
)
def test_one_graph_however_it_is_written(content, nodes, suffix, tmp_path):
    ranks = ranked(tmp_path / f"edges{suffix}", content)
    assert ranks == pytest.approx(dict(zip(nodes, RANKS, strict=True)), abs=1e-9)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (lines(" "), "no header line"),
        (lines(",", "u,v"), "the first line, 'u,v', is taken for the header"),
        (lines(" ").replace("3 1", "# half\n3 1"), "1 comment line left out"),
        ("# a\n#b\n" + lines(" "), "2 comment lines above the edges left out, the first '# a'"),
        ("#ai b\nb c\nc d\n", "1 comment line above the edges left out, the first '#ai b'"),
        ("a b\nb #c\n#c a\n# c\n", "1 comment line left out"),
        ("from;to\nKöln;1\n1;Köln\n".encode("cp1252"), "read as cp1252"),
        (lines(",").encode("utf-16"), "read as utf-16"),
        (",u,v\n0,1,2\n1,2,3\n", "the first column, which counts the rows, left out"),
        ("to,from\n1,2\n2,1\n", "source is 'from' and target 'to', by their names"),
        ("u,v\n1,2.0\n2,3\n", "'2' and '2.0' are one node"),
        ("u,v\n2026-01-01,2026-01-02\n2026-01-01T00:00:00.0,2026-01-03\n", "are one node"),
        ("u,v\n00501,2\n501,2\n", "'00501' and '501' are two nodes"),
        ("from,to\n1,2\n2,abc\n1.0,abc\n", "'1' and '1.0' are two nodes"),
        ("# Undirected graph\n" + lines("\t"), "undirected"),
        ("% sym unweighted\n" + lines(" "), "undirected"),
        ("Source;Target;Type\n1;2;Undirected\n2;3;Undirected\n", "undirected"),
        ("%%MatrixMarket matrix coordinate real symmetric\n2 2 1\n1 2 1.5\n", "undirected"),
        ("1 2\n" * 40_000 + "1 2.0\n# the end\n", "1 comment line left out"),
    ],
    ids=lambda value: None if isinstance(value, bytes) else value[-40:],
)
def test_what_was_noticed_is_told(content, words, tmp_path):
    path = tmp_path / "edges.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    notes = compute_pagerank(path).notes
    assert any(words in note for note in notes), notes


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("e.csv", "", "must hold at least one edge, '.*' holds nothing"),
        ("e.csv", "\n \n", "must hold at least one edge, '.*' holds nothing"),
        ("e.txt", "# nothing\n", "must hold at least one edge, '.*' holds only comments"),
        ("e.csv", "from,to\n", "must hold at least one edge, '.*' has but a header line"),
        ("e.csv", "a\nb\nc\n", "must have a column of sources and one of targets"),
        ("e.csv", "x,y\na,b\nc,d\n", "say header or no_header"),
        ("e.csv", "from,to\nfrom,a\nb,c\n", "say header or no_header"),
        ("e.csv", "a,a\n1,2\n", "two columns have one name"),
        ("e.csv", "u,v\n1,2\n3,4\n5,6,7\n", "has 2 columns, but 1 of 4 rows are longer"),
        ("e.csv", "u,v\n" + "1,2\n" * 9 + "5,6,7\n", "2 cells in every line, .* 3 in line 11"),
        ("e.csv", "u,v\n1,2\n \n# x\n,3\n", "have no source, the first is line 5"),
        ("e.csv", "from,to\n#a,b\nb,#a\n#x\n \n,3\n", "have no source, the first is line 6"),
        ("e.csv", "u,v\n1,2\n\n# x\n3\n", "must have 2 cells in every line, .* 1 in line 5"),
        ("e.txt", "1 2\n" * 20 + "3\n", "must have 2 cells in every line, .* 1 in line 21"),
        ("e.csv", "u,v\n1,2\n,3\n", "1 of 2 rows .* have no source, the first is line 3"),
        ("e.csv", 'u,v\n1,2\n3," "\n', "1 of 2 rows .* have no target, the first is line 3"),
        ("e.csv", 'u,v\n1,2\n\n"",3\n', "1 of 2 rows .* have no source, the first is line 4"),
        ("e.csv", "u,v\n1,2\n" + '1,"2\n3,4\n', "one is not closed in line 3"),
        ("e.csv", lines(",", "from,to", "abc") * 2, "its header stands again"),
        ("e.csv", lines(",", "u,v") * 2, "its header stands again"),
        ("e.csv", lines(",", "u,v") * 40_000, "its header stands again"),
        ("e.csv", "u,v\n" + "1,2\n" * 90_000 + "u,v\n", "its header stands again in line 90002"),
        ("e.csv", b"\x00\x01\x02" * 50, "bytes of 0"),
    ],
)
def test_what_cannot_be_a_graph_is_refused_by_its_reason(name, content, message, tmp_path):
    with pytest.raises(InputError, match=message) as caught:
        ranked(tmp_path / name, content)
    assert "\n" not in str(caught.value)


def test_header_and_encoding_may_be_said(tmp_path):
    content = "x,y\na,ö\nc,d\n"
    assert set(ranked(tmp_path / "e.csv", content, header=True)) == {"a", "c", "d", "ö"}
    assert set(ranked(tmp_path / "e.csv", content, header=False)) == set("xyacdö")
    content = content.encode("cp437")
    assert "ö" in ranked(tmp_path / "e.csv", content, header=True, encoding="cp437")
    assert set(ranked(tmp_path / "e.csv", "1,2\n2,3\n", header=True)) == {2, 3}


@pytest.mark.parametrize(
    ("weights", "options"),
    [
        (("1", "1", "3", "1"), {}),
        (("1e308", "1.2e308", "1.5e308", "0.5e308"), {}),
        (("5e-324", "1", "1.5e-323", "5e-324"), {}),
        (("1e-310", "1e-310", "3e-310", "1e-310"), {"repeated": "once"}),
        (("1e-310", "1e300", "3e-310", "1e-310"), {}),
        (("0,1", "2,5", "1,5", "0,5"), {}),
    ],
)
@pytest.mark.parametrize("on_workers", [False, True])
def test_weights_of_any_size(
    weights,
    options,
    on_workers,
    in_process,
    tmp_path,
):
    path = tmp_path / "e.csv"
    rows = (";".join((*edge, weight)) for edge, weight in zip(EDGES, weights, strict=True))
    path.write_text("from;to;w\n" + "\n".join(rows))
    expected = reference(
        3, (np.array([0, 1, 2, 2]), np.array([1, 2, 0, 1]), np.array([1, 1, 3, 1]))
    )
    edges = open_edges(path, weight="w")
    if not on_workers:
        ranks = compute_pagerank(edges, tol=1e-12, **options)
    elif options:
        with pytest.raises(InputError, match="weight must lie between"):
            distributed_pagerank(in_process, edges, tmp_path / "work", **options)
        return
    else:
        stop = StoppingRule(1e-12)
        ranks = distributed_pagerank(
            in_process, edges, tmp_path / "work", stop=stop, part_bytes=9, **options
        )
    np.testing.assert_allclose(ranks.values[:, 0], expected, atol=1e-11)
    assert ranks.residual < 1e-11


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ("5%", "weight must be a column of numbers, .* has '5%' in line 4"),
        ("$5", "weight must be a column of numbers, .* has '.5' in line 4"),
        ("True", "weight must be a column of numbers, .* has 'True' in line 4"),
        ("nan", "weight must be finite and at least 0, got nan in line 4"),
        ("-1", "weight must be finite and at least 0, got -1.0 in line 4"),
        ("inf", "weight must be finite and at least 0, got inf in line 4"),
        ("", "weight must be finite and at least 0, got nan in line 4"),
    ],
)
def test_bad_weights_are_told_by_their_line(weight, message, tmp_path):
    with pytest.raises(InputError, match=message):
        ranked(tmp_path / "e.csv", f"u,v,w\n1,2,3\n\n2,3,{weight}\n", weight="w")


def test_source_is_not_target(tmp_path):
    content = lines(",", "from,to")
    for how in ({"source": "from", "target": "from"}, {"source": "to"}):
        with pytest.raises(InputError, match="source and target must be two columns"):
            ranked(tmp_path / "e.csv", content, **how)


@pytest.mark.parametrize("on_workers", [False, True])
def test_undirected_edges_count_both_ways_and_loops_once(on_workers, in_process, tmp_path):
    path = tmp_path / "e.txt"
    path.write_text("0 1\n1 2\n2 2\n0 3\n")
    both = (np.array([0, 1, 1, 2, 2, 0, 3]), np.array([1, 0, 2, 1, 2, 3, 0]))
    if on_workers:
        stop = StoppingRule(1e-12)
        ranks = distributed_pagerank(
            in_process, open_edges(path), tmp_path / "work", undirected=True, stop=stop
        )
    else:
        ranks = compute_pagerank(path, undirected=True, tol=1e-12)
    assert ranks.n_edges == 7
    np.testing.assert_allclose(ranks.values[:, 0], reference(4, both), atol=1e-11)


@pytest.mark.parametrize(
    "content",
    [
        "from,to\n1,2.0\n2,3.0\n3,1\n+3,2\n",
        "# x\n1 2\n2 3\n# half\n3 1\n3 2\n",
        "from,to\n1.5,2\n2.0,x\nx,1.5\nx,2\n",
        "a b\nb #c\n# half\n#c a\n#c b\n",
        "1\t2\r2\t3\r3\t1\r3\t2",
        lines(",", "from,to", "äöü").encode("cp1252"),
        lines(",", "from,to").encode("utf-16"),
        'from,to\n"a\nx",b\nb,c\nc,"a\nx"\nc,b\n',
        '"1" "2"\n"2" "3"\n"3" "1"\n"3" "2"\n',
        "00501 2\n2 3\n3 00501\n3 2\n",
    ],
    ids=range(10),
)
def test_workers_that_share_a_file_read_the_same(content, in_process, tmp_path):
    path = tmp_path / "e.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    for part_bytes in (5, 1000):
        ours = distributed_pagerank(
            in_process,
            open_edges(path),
            tmp_path / f"work-{part_bytes}",
            stop=StoppingRule(1e-12),
            part_bytes=part_bytes,
        )
        alone = compute_pagerank(path, tol=1e-12)
        assert list(ours.nodes) == list(alone.nodes)
        assert set(ours.notes) == set(alone.notes)
        np.testing.assert_allclose(ours.values, alone.values, atol=1e-11)


def _framed(frame, **options):
    return lambda path: frame.to_parquet(path, **options)


FRAME = pd.DataFrame({"f": [1, 2, 3, 3], "t": [2, 3, 1, 2]})


@pytest.mark.parametrize(
    ("write", "how"),
    [
        (_framed(FRAME), {}),
        (_framed(FRAME.set_index("f")), {}),
        (_framed(FRAME.set_index("f").assign(w=1.0)), {"source": "f", "target": "t"}),
        (_framed(FRAME.set_index(["f", "t"]).assign(w=1.0)), {}),
        (_framed(FRAME[FRAME["f"] > 0].sample(frac=1, random_state=0)), {}),
        (_framed(FRAME.rename(columns={"f": "from", "t": "to"}).set_index("from").assign(w=1)), {}),
        (_framed(FRAME.assign(n=range(4)).set_index("n")), {"source": "f", "target": "t"}),
        (_framed(FRAME.astype({"t": float})), {}),
        (_framed(FRAME.astype({"t": "Int64"})), {}),
    ],
)
def test_parquet_of_pandas_with_and_without_an_index(write, how, tmp_path):
    write(path := tmp_path / "e.parquet")
    ranks = compute_pagerank(path, tol=1e-12, **how).frame()["rank"]
    assert dict(ranks) == pytest.approx(NUMBERS, abs=1e-9)


def test_blanks_are_no_part_of_names_in_parquet_and_frames(tmp_path):
    frame = pd.DataFrame({"f": ["a", " b", "c", "c "], "t": ["b", "c", "a ", "b"]})
    frame.to_parquet(tmp_path / "e.parquet")
    frame.map(str.encode).to_parquet(tmp_path / "bytes.parquet")
    for edges in (frame, tmp_path / "e.parquet", tmp_path / "bytes.parquet"):
        ranks = compute_pagerank(edges, tol=1e-12).frame()["rank"]
        assert dict(ranks) == pytest.approx(LETTERS, abs=1e-9)


def test_parquet_that_is_not_plain_is_refused_in_a_line(tmp_path):
    FRAME.assign(w=1.0).set_index("f").to_parquet(tmp_path / "e.parquet")
    with pytest.raises(InputError, match=r"source and target must be named .* 'f' of"):
        compute_pagerank(tmp_path / "e.parquet")
    folder = tmp_path / "f.parquet"
    folder.mkdir()
    FRAME.to_parquet(folder / "1.parquet")
    FRAME.rename(columns={"t": "to"}).to_parquet(folder / "2.parquet")
    with pytest.raises(InputError, match=r"'2\.parquet' has no column 't', '1\.parquet' has"):
        compute_pagerank(folder)


def test_parquet_below_a_folder_of_parts_is_not_left_out_without_a_word(tmp_path):
    for part in ("1.parquet", "_delta_log/1.parquet", "more/deep/2.parquet"):
        (tmp_path / "e.parquet" / part).parent.mkdir(parents=True, exist_ok=True)
    FRAME.to_parquet(tmp_path / "e.parquet" / "1.parquet")
    FRAME.to_parquet(tmp_path / "e.parquet" / "_delta_log" / "1.parquet")
    whole = compute_pagerank(tmp_path / "e.parquet")
    assert np.array_equal(whole.values, compute_pagerank(FRAME).values)
    FRAME.to_parquet(tmp_path / "e.parquet" / "more" / "deep" / "2.parquet")
    with pytest.raises(InputError, match=r"'more/deep/2\.parquet' stands in a folder of its own"):
        compute_pagerank(tmp_path / "e.parquet")


def test_ids_of_columns_of_two_kinds_of_numbers_are_one_node():
    decimals = [Decimal(f"{number}.00") for number in FRAME["t"]]
    days = np.array(["2026-01-01", "2026-01-02", "2026-01-03"], "M8[s]")
    for source, target in (
        (FRAME["f"], FRAME["t"].astype(float)),
        (FRAME["f"], pa.array(decimals)),
        (pa.array([Decimal(number) for number in FRAME["f"]]), pa.array(decimals)),
        (days[FRAME["f"] - 1], days.astype("M8[ns]")[FRAME["t"] - 1]),
    ):
        ranks = compute_pagerank((source, target), tol=1e-12)
        np.testing.assert_allclose(ranks.values[:, 0], RANKS, atol=1e-9)
