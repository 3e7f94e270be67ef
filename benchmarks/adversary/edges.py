"""Edge lists: the ranks are networkx's, of the edges that the file means."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.adversary.case import Case, Sandbox
from benchmarks.adversary.figures import ranks_differ, read

Edges = list[tuple[Any, Any, float]]
BASE = ["pagerank", "--tol", "1e-13", "--workers", "1", "--cluster", "threads", "--quiet"]
SHARED = [
    "pagerank",
    "--tol",
    "1e-13",
    "--workers",
    "2",
    "--cluster",
    "local",
    "--quiet",
    "--distributed",
]


def drawn(seed: int, n: int = 40, m: int = 160) -> Edges:
    """Repeated edges, self-loops and dangling nodes as they fall."""
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, n - 4, m), rng.integers(0, n, m)
    return [
        (f"n{i}", f"n{j}", float(w)) for i, j, w in zip(a, b, rng.integers(1, 9, m), strict=True)
    ]


def exact(edges: Edges, **keywords: Any) -> dict[str, float]:
    graph = nx.DiGraph()
    for i, j, w in edges:
        old = graph.get_edge_data(i, j, {"weight": 0.0})["weight"]
        graph.add_edge(i, j, weight=old + w)
    return nx.pagerank(graph, tol=1e-15, max_iter=2000, **keywords)


def plain(edges: Edges) -> Edges:
    return [(i, j, 1.0) for i, j, _ in edges]


def listing(edges: Edges, sep: str = ",", head: str = "from,to,w\n", end: str = "\n") -> str:
    return head + "".join(f"{i}{sep}{j}{sep}{w:g}{end}" for i, j, w in edges)


def _case(
    sandbox: Sandbox,
    name: str,
    content: bytes | str,
    edges: Edges | None,
    *options: str,
    weighted: bool = True,
    refusal: str = "may",
    base: list[str] = BASE,
    **keywords: Any,
) -> Case:
    path = sandbox.write(name, content)
    weight = ["--weight", "w"] if weighted else []
    argv = [*base, "--edges", str(path), *weight, *options, "--results", str(sandbox.out)]

    def check(output: str) -> str:
        if edges is None:
            return ""
        ranks = read(sandbox.out)["ranks"]
        names = {str(node): rank for node, rank in exact(edges, **keywords).items()}
        return ranks_differ(ranks, names, 1e-8)

    return Case(argv, check, refusal)


Make = Callable[[Sandbox, Edges], Case]


def _csv(
    change: Callable[[Edges], str | bytes],
    means: Callable[[Edges], Edges] | None = lambda e: e,
    *options: str,
    name: str = "e.csv",
    **keywords: Any,
) -> Make:
    return lambda sandbox, edges: _case(
        sandbox, name, change(edges), means(edges) if means else None, *options, **keywords
    )


def _rename(new: Callable[[str], str]) -> Make:
    def change(edges: Edges) -> Edges:
        return [(new(i), new(j), w) for i, j, w in edges]

    return _csv(lambda e: listing(change(e)), change)


def _ids(
    names: Callable[[int], str],
    *options: str,
    means: Callable[[int], str] | None = None,
    **keywords: Any,
) -> Make:
    def change(edges: Edges, names: Callable[[int], str] = names) -> Edges:
        return [(names(int(i[1:])), names(int(j[1:])), w) for i, j, w in edges]

    return _csv(
        lambda e: listing(change(e)), lambda e: change(e, means or names), *options, **keywords
    )


def _arrow(change: Callable[[Any], Any], refusal: str = "may", sound: bool = True) -> Make:
    def make(sandbox: Sandbox, edges: Edges) -> Case:
        new = change(pd.DataFrame(edges, columns=["from", "to", "w"]))
        path = sandbox.folder / "e.parquet"
        table = new if isinstance(new, pa.Table) else pa.Table.from_pandas(new)
        pq.write_table(table, path)
        return _case(
            sandbox, "e.parquet", path.read_bytes(), edges if sound else None, refusal=refusal
        )

    return make


def _personal(
    rows: Callable[[Edges], dict[str, float]], dangling: str, text: str = "node,v\n"
) -> Make:
    def make(sandbox: Sandbox, edges: Edges) -> Case:
        jump = rows(edges)
        file = sandbox.write("p.csv", text + "".join(f"{k},{v!r}\n" for k, v in jump.items()))
        options = ["--personalise", str(file), "--dangling", dangling]
        names = {i for i, _, _ in edges} | {j for _, j, _ in edges}
        largest = max(jump.values())  # whose sum may be no float64 number
        jump = {node: value / largest for node, value in jump.items()}
        arguments: dict[str, Any] = {"personalization": jump}
        arguments["dangling"] = jump if dangling == "personalised" else dict.fromkeys(names, 1.0)
        return _case(sandbox, "e.csv", listing(edges), edges, *options, **arguments)

    return make


def _weights(
    change: Callable[[float], str], means: Callable[[float], float] | None, refusal: str = "may"
) -> Make:
    def build(sandbox: Sandbox, edges: Edges) -> Case:
        body = "from,to,w\n" + "".join(f"{i},{j},{change(w)}\n" for i, j, w in edges)
        meant = [(i, j, means(w)) for i, j, w in edges] if means else None
        return _case(sandbox, "e.csv", body, meant, refusal=refusal)

    return build


def _hub(sandbox: Sandbox, edges: Edges) -> Case:
    """Weights of which one exceeds the others by 1e15: no small one may vanish."""
    all_edges = [*edges, ("n0", "n1", 1e15)]
    return _case(
        sandbox,
        "e.csv",
        "from,to,w\n" + "".join(f"{i},{j},{w!r}\n" for i, j, w in all_edges),
        all_edges,
    )


EDGES: dict[str, Make] = {
    "byte order mark": _csv(lambda e: b"\xef\xbb\xbf" + listing(e).encode()),
    "utf-16": _csv(lambda e: listing(e).encode("utf-16")),
    "carriage returns": _csv(lambda e: listing(e).replace("\n", "\r\n")),
    "carriage returns alone": _csv(lambda e: listing(e).replace("\n", "\r")),
    "semicolons": _csv(lambda e: listing(e, ";", "from;to;w\n")),
    "decimal commas": _csv(
        lambda e: listing(e, ";", "from;to;w\n", ",5\n"),
        lambda e: [(i, j, w + 0.5) for i, j, w in e],
    ),
    "quoted": _csv(lambda e: "from,to,w\n" + "".join(f'"{i}","{j}","{w:g}"\n' for i, j, w in e)),
    "names with commas": _csv(
        lambda e: "from,to,w\n" + "".join(f'"{i},x","{j},x",{w:g}\n' for i, j, w in e),
        lambda e: [(i + ",x", j + ",x", w) for i, j, w in e],
    ),
    "spaces after commas": _csv(lambda e: listing(e, ", ", "from, to, w\n")),
    "no header": _csv(lambda e: listing(e, head=""), None, weighted=False, refusal="may"),
    "no header, three columns": lambda p, e: _case(
        p, "e.csv", listing(e, head=""), plain(e), weighted=False
    ),
    "header of numbers": _csv(
        lambda e: listing(e, head="1,2,w\n"), lambda e: plain(e), weighted=False
    ),
    "columns by other order": _csv(
        lambda e: "w,to,from\n" + "".join(f"{w:g},{j},{i}\n" for i, j, w in e),
        lambda e: e,
        "--source",
        "from",
        "--target",
        "to",
    ),
    "source is target": _csv(listing, None, "--source", "from", "--target", "from"),
    "weight is target": _csv(
        lambda e: "from,w,to\n" + "".join(f"{i},3,{j}\n" for i, j, _ in e), None, "--target", "w"
    ),
    "two columns of a name": _csv(
        lambda e: listing(e, head="from,to,to\n"), None, weighted=False, refusal="must"
    ),
    "ids with zeros": _ids(lambda k: f"{k:03d}" if k % 2 else f"{k}"),
    "ids 1 and 01": _ids(lambda k: f"{'0' * (k % 2)}{k // 2 + 1}"),
    "ids 1 and 1.0": _ids(lambda k: f"{k // 2}{'.0' * (k % 2)}", means=lambda k: f"{k // 2}"),
    "ids of exponents": _ids(
        lambda k: f"{k // 2 + 1}{'e0' * (k % 2)}", means=lambda k: f"{k // 2 + 1}"
    ),
    "ids beyond doubles": _ids(lambda k: str(2**53 + k)),
    "ids beyond 64 bits": _ids(lambda k: str(2**64 + k)),
    "ids near 2^63": _ids(lambda k: str(2**63 - 20 + k)),
    "negative ids": _ids(lambda k: str(k - 20)),
    "ids of fractions": _ids(lambda k: f"{k}.5"),
    "ids True and true": _ids(lambda k: ["True", "true", "TRUE", "1", "False", "0"][k % 6]),
    "ids NA and null": _ids(lambda k: ["NA", "null", "None", "nan", "NaN", "x"][k % 6]),
    "ids inf": _ids(lambda k: ["inf", "-inf", "1", "2", "3"][k % 5]),
    "ids of dates": _ids(lambda k: f"2020-01-{k % 28 + 1:02d}"),
    "ids with spaces about": _ids(lambda k: f"{k // 2}{' ' * (k % 2)}x"),
    "ids of case": _ids(lambda k: ("a" if k % 2 else "A") + str(k // 2)),
    "ids NFC and NFD": _ids(lambda k: ("\u00e9" if k % 2 else "e\u0301") + str(k // 2)),
    "ids like comments": _ids(lambda k: f"#{k}"),
    "ids of emoji": _ids(lambda k: chr(0x1F400 + k)),
    "ids of 64 kB": _ids(lambda k: "x" * 65536 + str(k) if k < 2 else str(k)),
    "an empty name": _csv(lambda e: listing([("", *e[0][1:]), *e[1:]]), None, refusal="must"),
    "a missing target": _csv(lambda e: listing(e) + "n1,,2\n", None, refusal="must"),
    "a short line": _csv(lambda e: listing(e) + "n1\n", None, refusal="must"),
    "a long line": _csv(lambda e: listing(e) + "n1,n2,3,4\n", None, refusal="must"),
    "an open quote": _csv(lambda e: listing(e) + '"n1,n2,3\nn4,n5,1\n', None, refusal="must"),
    "comments in a csv": _csv(lambda e: "# made by hand\n" + listing(e)),
    "percent comments in a txt": _csv(
        lambda e: "% made by hand\n" + listing(plain(e), "\t", "").replace("\t1\n", "\n"),
        plain,
        name="e.txt",
        weighted=False,
    ),
    "tabs and spaces in a txt": _csv(
        lambda e: "".join(f"{i} \t {j}\n" for i, j, _ in e), plain, name="e.txt", weighted=False
    ),
    "spaces before a txt's lines": _csv(
        lambda e: "".join(f"  {i} {j} \n" for i, j, _ in e), plain, name="e.txt", weighted=False
    ),
    "comments amid a txt": _csv(
        lambda e: "".join(f"{i} {j}\n# half\n" for i, j, _ in e),
        plain,
        name="e.txt",
        weighted=False,
    ),
    "commas in a txt": _csv(
        lambda e: "".join(f"{i},{j}\n" for i, j, _ in e), plain, name="e.txt", weighted=False
    ),
    "a header in a txt": _csv(
        lambda e: "FromNodeId ToNodeId\n" + "".join(f"{i[1:]} {j[1:]}\n" for i, j, _ in e),
        lambda e: [(i[1:], j[1:], 1.0) for i, j, _ in e],
        name="e.txt",
        weighted=False,
    ),
    "Matrix Market in a txt": _csv(
        lambda e: (
            "%%MatrixMarket matrix coordinate pattern general\n40 40 160\n"
            + "".join(f"{i[1:]} {j[1:]}\n" for i, j, _ in e)
        ),
        lambda e: [(i[1:], j[1:], 1.0) for i, j, _ in e],
        name="e.txt",
        weighted=False,
    ),
    "gzip by a false name": _csv(lambda e: gzip.compress(listing(e).encode())),
    "gzip": _csv(lambda e: gzip.compress(listing(e).encode()), name="e.csv.gz"),
    "json": _csv(lambda e: json.dumps(e), None, refusal="must", name="e.json"),
    "only a header": _csv(lambda e: "from,to,w\n", None, refusal="must"),
    "negative weights": _weights(lambda w: f"{w - 4:g}", None, "must"),
    "weights with NaN": _weights(lambda w: "nan" if w > 7 else f"{w:g}", None, "must"),
    "weights missing": _weights(lambda w: "" if w > 7 else f"{w:g}", None, "must"),
    "weights infinite": _weights(lambda w: "inf" if w > 7 else f"{w:g}", None, "must"),
    "weights of zero": _weights(lambda w: "0" if w > 7 else f"{w:g}", None),
    "all weights of zero": _weights(lambda w: "0", None),
    "tiny weights": _weights(lambda w: f"{w * 1e-300:.17g}", lambda w: w),
    "weights below normal": _weights(lambda w: f"{w * 5e-323:.17g}", None),
    "huge weights": _weights(lambda w: f"{w * 1e307:.17g}", lambda w: w),
    "weights shifted by 1e9": _weights(lambda w: f"{w + 1e9:.17g}", lambda w: w + 1e9),
    "weights in percent": _weights(lambda w: f"{w}%", lambda w: w),
    "weights in hexadecimal": _weights(lambda w: hex(int(w)), lambda w: w),
    "weights True": _weights(lambda w: "True", None),
    "one weight above all": _hub,
    "personalise one node": _personal(lambda e: {e[0][0]: 3.0}, "uniform"),
    "personalise, tiny": _personal(lambda e: {e[0][0]: 1e-310, e[1][0]: 3e-310}, "personalised"),
    "personalise, huge": _personal(lambda e: {e[0][0]: 1e308, e[1][0]: 1.7e308}, "uniform"),
    "personalise all alike": _personal(
        lambda e: dict.fromkeys(dict.fromkeys(i for i, _, _ in e), 1.0), "personalised"
    ),
    "personalise a stranger": _personal(lambda e: {"nobody": 1.0, e[0][0]: 1.0}, "uniform"),
    "personalise nothing": lambda p, e: _case(
        p,
        "e.csv",
        listing(e),
        None,
        "--personalise",
        str(p.write("p.csv", "node,v\nn1,0\n")),
        refusal="must",
    ),
    "personalise a node twice": lambda p, e: _case(
        p,
        "e.csv",
        listing(e),
        None,
        "--personalise",
        str(p.write("p.csv", f"node,v\n{e[0][0]},1\n{e[0][0]},2\n")),
        refusal="may",
    ),
    "parquet of categories": _arrow(lambda d: d.astype({"from": "category", "to": "category"})),
    "parquet of one dictionary each": _arrow(
        lambda d: d.assign(to=pd.Categorical(d["to"], sorted(set(d["to"]))[::-1]))
    ),
    "parquet with an index": _arrow(lambda d: d.set_index("from"), sound=False),
    "parquet of nullable weights": _arrow(lambda d: d.convert_dtypes()),
    "parquet of bytes": _arrow(
        lambda d: pa.Table.from_pandas(d).set_column(
            0, "from", pa.array([s.encode() for s in d["from"]])
        )
    ),
    "parquet of mixed ids": _arrow(
        lambda d: d.assign(**{"from": [int(s[1:]) for s in d["from"]]}), sound=False
    ),
    "parquet of floats": _arrow(
        lambda d: d.assign(
            **{"from": [float(s[1:]) for s in d["from"]], "to": [float(s[1:]) for s in d["to"]]}
        ),
        sound=False,
    ),
    "parquet with a null": _arrow(
        lambda d: d.assign(to=d["to"].where(d.index > 3)), refusal="must"
    ),
    "distributed, quoted": lambda p, e: _case(
        p,
        "e.csv",
        "from,to,w\n" + "".join(f'"{i}","{j}","{w:g}"\n' for i, j, w in e),
        e,
        base=SHARED,
    ),
    "distributed, ids with zeros": _ids(lambda k: f"{'0' * (k % 2)}{k // 2 + 1}", base=SHARED),
    "distributed, beyond doubles": _ids(lambda k: str(2**53 + k), base=SHARED),
    "distributed, text late": lambda p, e: _case(
        p,
        "e.csv",
        listing([(i[1:], j[1:], w) for i, j, w in e] * 20 + [("late", "1", 1.0)]),
        [(i[1:], j[1:], w) for i, j, w in e] * 20 + [("late", "1", 1.0)],
        base=SHARED,
    ),
    "distributed, line breaks in names": lambda p, e: _case(
        p,
        "e.csv",
        "from,to,w\n" + "".join(f'"{i}\nx","{j}\nx",{w:g}\n' for i, j, w in e),
        [(i + "\nx", j + "\nx", w) for i, j, w in e],
        base=SHARED,
    ),
}


def cases(seed: int) -> list[Callable[[Sandbox], Case]]:
    edges = drawn(seed)
    return [lambda sandbox, make=make: make(sandbox, edges) for make in EDGES.values()]  # type: ignore[misc]
