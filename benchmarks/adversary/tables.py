"""Tables as text: what means the same must give the same figures, whatever it looks like."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.adversary.case import Case, Sandbox
from benchmarks.adversary.figures import difference, inconsistency

HEADER = ["length", "width", "age", "city", "kind"]
CV = ["cross_validate", "--estimator", "knn", "--param", "n_neighbors=1,5,9", "--folds", "3"]
SVM = ["svm_grid", "--n-c", "3", "--n-gamma", "2", "--folds", "3"]
TREE = ["cross_validate", "--estimator", "tree", "--param", "max_depth=2,4", "--folds", "3"]
HERE = ["--cluster", "threads", "--workers", "1", "--quiet"]
Rows = list[list[str]]


def clean(seed: int, n: int = 120) -> Rows:
    """Rows of three classes, told apart by numbers and a category."""
    rng = np.random.default_rng(seed)
    kinds = rng.permutation(np.arange(n) % 3)
    length = rng.normal(kinds * 1.5 + 3, 1).round(3)
    width = rng.normal(10 - kinds, 1).round(3)
    cities = np.array(["Bonn", "Kiel", "Ulm", "Wien"])[(kinds + rng.integers(0, 2, n)) % 4]
    columns = [
        length,
        width,
        rng.integers(18, 90, n),
        cities,
        np.array(["ant", "bee", "cat"])[kinds],
    ]
    return [[str(cell) for cell in row] for row in zip(*columns, strict=True)]


def text(rows: Rows, header: list[str] | None = HEADER, sep: str = ",", end: str = "\n") -> str:
    return "".join(sep.join(row) + end for row in ([header] if header else []) + rows)


@dataclass
class Variant:
    """A file and the table it means; ``rows`` None: it means none, and figures must only agree.

    same : rows by which scores may differ; renamed: class names differ, not their rows
    """

    content: bytes | str
    rows: Rows | None = None
    name: str = "mine.csv"
    options: list[str] = field(default_factory=list)
    twin_options: list[str] = field(default_factory=list)
    header: list[str] = field(default_factory=lambda: HEADER)
    refusal: str = "may"
    names: tuple[str, ...] = ()
    same: int = 0
    target: str = "kind"
    command: list[str] | None = None


def column(rows: Rows, k: int, change: Callable[[str], str]) -> Rows:
    return [[change(cell) if i == k else cell for i, cell in enumerate(row)] for row in rows]


def case_of(sandbox: Sandbox, variant: Variant) -> Case:
    command = variant.command or sandbox.random.choice([CV, SVM, TREE])
    path = sandbox.write(variant.name, variant.content)
    argv = [*command, "--dataset", str(path), *HERE, "--results", str(sandbox.out)]
    argv += [*(["--target", variant.target] if variant.target else []), *variant.options]

    def check(output: str) -> str:
        if variant.rows is None:
            return inconsistency(sandbox.out)
        twin = sandbox.write("twin.csv", text(variant.rows, variant.header))
        options = [*(["--target", variant.target] if variant.target else []), *variant.twin_options]
        other = sandbox.twin([*command, "--dataset", twin, *HERE, *options], twin)
        return inconsistency(sandbox.out) or difference(sandbox.out, other, variant.same)

    return Case(argv, check, variant.refusal, variant.names)


def _at(sandbox: Sandbox, n: int = 120) -> int:
    return sandbox.random.randrange(n)


def _set(rows: Rows, i: int, k: int, cell: str) -> Rows:
    return [
        [cell if (i, k) == (r, c) else old for c, old in enumerate(row)]
        for r, row in enumerate(rows)
    ]


def _quoted(rows: Rows) -> Rows:
    return [['"' + cell.replace('"', '""') + '"' for cell in row] for row in rows]


def _renamed(rows: Rows, new: dict[str, str], k: int = 4) -> Rows:
    return column(rows, k, lambda cell: new.get(cell, cell))


def _numbers(rows: Rows, change: Callable[[float], float], k: int = 0, digits: int = 12) -> Rows:
    return column(rows, k, lambda cell: f"{change(float(cell)):.{digits}g}")


def _lines(rows: Rows, i: int, line: str) -> str:
    lines = text(rows).splitlines()
    return "\n".join([*lines[: i + 1], line, *lines[i + 1 :], ""])


def _labels(rows: Rows, a: str, b: str, c: str) -> Variant:
    """Three class names that a reader may take for one another."""
    return Variant(text(_renamed(rows, {"ant": a, "bee": b, "cat": c})), rows, same=0)


def _city(rows: Rows, cells: str) -> Variant:
    """Levels of a category by other names that sort alike."""
    names = dict(zip(("Bonn", "Kiel", "Ulm", "Wien"), cells.split("|"), strict=True))
    options = ["--category", "city"]
    return Variant(
        text(_renamed(rows, names, 3)), rows, options=options, twin_options=options, same=1
    )


def _file(name: str) -> Callable[[Sandbox, Rows], Variant]:
    return lambda sandbox, rows: Variant(text(rows), rows, name=name)


def _marker(cell: str, k: int) -> Callable[[Sandbox, Rows], Variant]:
    """A cell that spreadsheets write for a missing one."""

    def build(sandbox: Sandbox, rows: Rows) -> Variant:
        i = _at(sandbox)
        return Variant(text(_set(rows, i, k, cell)), _set(rows, i, k, ""))

    return build


def _moved(shift: float, scale: float, command: list[str]) -> Callable[[Sandbox, Rows], Variant]:
    """A column in other units, all of whose digits are written."""

    def build(sandbox: Sandbox, rows: Rows) -> Variant:
        k = sandbox.random.randrange(2)
        new = _numbers(rows, lambda x: x * scale + shift, k, 16)
        return Variant(text(new), rows, same=2, command=command)

    return build


def _huge_groups(sandbox: Sandbox, rows: Rows) -> Variant:
    groups = [f"{2**53 + i % 7}" for i in range(len(rows))]
    plain = [str(i % 7) for i in range(len(rows))]
    header = ["who", *HEADER]
    options = ["--cv", "group", "--groups", "who"]
    new, old = (
        [[g, *row] for g, row in zip(names, rows, strict=True)] for names in (groups, plain)
    )
    return Variant(
        text(new, header), old, header=header, options=options, twin_options=options, command=TREE
    )


def _text_groups(sandbox: Sandbox, rows: Rows) -> Variant:
    """``007`` and ``7`` are two patients."""
    names = ["007", "7", "07", "1e1", "10", "0x7"]
    header = ["who", *HEADER]
    options = ["--cv", "group", "--groups", "who"]
    new = [[names[i % 6], *row] for i, row in enumerate(rows)]
    old = [["abcdef"[i % 6], *row] for i, row in enumerate(rows)]
    return Variant(
        text(new, header), old, header=header, options=options, twin_options=options, command=TREE
    )


def _numbered_header(sandbox: Sandbox, rows: Rows) -> Variant:
    """Columns are called 5, 4, ... so that ``--target 5`` may mean two; all but it are numbers."""
    new = [[row[4], row[0], row[1], row[2], "1" if row[3] < "L" else "0"] for row in rows]
    old = [[*row[1:], row[0]] for row in new]
    content = text(new, ["5", "4", "3", "2", "1"])
    options = ["--header", "--target", "5"]
    return Variant(
        content,
        old,
        header=["d", "c", "b", "a", "kind"],
        options=options,
        twin_options=["--target", "kind"],
        target="",
        command=TREE,
        same=1,
    )


BUILDERS: dict[str, Callable[[Sandbox, Rows], Variant]] = {
    "byte order mark": lambda p, r: Variant(b"\xef\xbb\xbf" + text(r).encode(), r),
    "mark, target first": lambda p, r: Variant(
        b"\xef\xbb\xbf" + text([[x[4], *x[:4]] for x in r], ["kind", *HEADER[:4]]).encode(), r
    ),
    "utf-16": lambda p, r: Variant(text(r).encode("utf-16"), r),
    "utf-16 without mark": lambda p, r: Variant(text(r).encode("utf-16-le"), r),
    "utf-32": lambda p, r: Variant(text(r).encode("utf-32"), r),
    "carriage returns alone": lambda p, r: Variant(text(r, end="\r"), r),
    "mixed line ends": lambda p, r: Variant(text(r[:60], end="\r\n") + text(r[60:], None), r),
    "form feeds": lambda p, r: Variant(text(r).replace("\n", "\n\f", 5), r),
    "latin-1 city": lambda p, r: Variant(text(r).replace("Kiel", "Köln").encode("latin-1"), r),
    "latin-1 classes": lambda p, r: Variant(text(r).replace("bee", "böe").encode("latin-1"), r),
    "header in NFD, target in NFC": lambda p, r: Variant(
        text(r, [*HEADER[:4], "espe\u0300ce"]),
        r,
        options=["--target", "espèce"],
        target="",
        header=[*HEADER[:4], "zzz"],
        twin_options=["--target", "zzz"],
    ),
    "all quoted": lambda p, r: Variant(text(_quoted(r), [f'"{h}"' for h in HEADER]), r),
    "line breaks in quotes": lambda p, r: Variant(
        text(column(r, 3, lambda c: f'"{c}\nOld Town, ""A"""')), r
    ),
    "single quotes": lambda p, r: Variant(text(column(r, 3, lambda c: f"'{c}'")), r),
    "an open quote": lambda p, r: Variant(text(_set(r, _at(p), 3, '"Bonn')), None),
    "spaces about cells": lambda p, r: Variant(
        text([[f" {c}  " for c in x] for x in r], [f" {h}" for h in HEADER]), r
    ),
    "spaces about some labels": lambda p, r: Variant(text(_set(r, 3, 4, r[3][4] + " ")), r),
    "no-break spaces": lambda p, r: Variant(text(column(r, 0, lambda c: f"\u00a0{c}")), r),
    "plus signs": lambda p, r: Variant(
        text(column(r, 0, lambda c: c if c[0] == "-" else f"+{c}")), r
    ),
    "minus of typesetters": lambda p, r: Variant(
        text(column(_numbers(r, lambda x: x - 3), 0, lambda c: c.replace("-", "\u2212"))),
        _numbers(r, lambda x: x - 3),
    ),
    "exponents": lambda p, r: Variant(
        text(column(r, 0, lambda c: f"{float(c):.3E}")),
        column(r, 0, lambda c: repr(float(f"{float(c):.3E}"))),
    ),
    "Fortran exponents": lambda p, r: Variant(
        text(column(r, 0, lambda c: f"{float(c):.6e}".replace("e", "D"))), r
    ),
    "underscores": lambda p, r: Variant(text(column(r, 2, lambda c: f"{c[0]}_{c[1:]}")), r),
    "thousands in quotes": lambda p, r: Variant(
        text(
            column(_numbers(r, lambda x: round(abs(x) * 1e4)), 0, lambda c: f'"{int(float(c)):,}"')
        ),
        _numbers(r, lambda x: round(abs(x) * 1e4)),
    ),
    "decimal commas and tabs": lambda p, r: Variant(
        text([[c.replace(".", ",") for c in x] for x in r], sep="\t"), r, name="mine.tsv"
    ),
    "decimal commas in quotes": lambda p, r: Variant(
        text(column(r, 0, lambda c: '"' + c.replace(".", ",") + '"')), r
    ),
    "percent": lambda p, r: Variant(text(column(r, 2, lambda c: f"{c}%")), r),
    "units": lambda p, r: Variant(text(column(r, 2, lambda c: f"{c} cm")), r),
    "units of one row": lambda p, r: Variant(text(_set(r, i := _at(p), 2, f"{r[i][2]} y")), r),
    "full-width digits": lambda p, r: Variant(
        text(column(r, 2, lambda c: "".join(chr(ord(d) + 0xFEE0) for d in c))), r
    ),
    "hexadecimal": lambda p, r: Variant(text(column(r, 2, lambda c: hex(int(c)))), r),
    "a comment first": lambda p, r: Variant("# made by hand, in May\n" + text(r), r),
    "separator named first": lambda p, r: Variant("sep=;\n" + text(r, sep=";"), r),
    "a title first": lambda p, r: Variant("Insects 2024\n\n" + text(r), r),
    "units below the header": lambda p, r: Variant(_lines(r, 0, "cm,cm,years,-,-"), r),
    "header again amid": lambda p, r: Variant(_lines(r, _at(p), text([]).strip()), r),
    "totals at the end": lambda p, r: Variant(text(r) + "mean,4.5,54,,\n", r),
    "empty lines amid": lambda p, r: Variant(_lines(r, _at(p), "\n\n"), r),
    "lines of commas": lambda p, r: Variant(_lines(r, _at(p), ",,,,"), r),
    "a comma after each line": lambda p, r: Variant(text(r, end=",\n"), r),
    "index column without name": lambda p, r: Variant(
        text([[str(i), *x] for i, x in enumerate(r)], ["", *HEADER]), r
    ),
    "a short row": lambda p, r: Variant(_lines(r, _at(p), "1.0,2.0"), None, refusal="must"),
    "a long row": lambda p, r: Variant(_lines(r, _at(p), "1,2,3,Bonn,ant,9"), None, refusal="must"),
    "NUL in a cell": lambda p, r: Variant(text(_set(r, _at(p), 3, "Bo\0nn")), None),
    "NUL block at the end": lambda p, r: Variant(text(r).encode() + bytes(512), r),
    "control Z at the end": lambda p, r: Variant(text(r) + "\x1a", r),
    "gzip by a false name": lambda p, r: Variant(gzip.compress(text(r).encode()), r),
    "gzip": lambda p, r: Variant(gzip.compress(text(r).encode()), r, name="mine.csv.gz"),
    "html": lambda p, r: Variant("<html><body>404</body></html>", None, refusal="must"),
    "a merge conflict": lambda p, r: Variant(
        _lines(r, _at(p), "<<<<<<< HEAD"), None, refusal="must"
    ),
    **{
        f"missing as {cell}": _marker(cell, k)
        for cell, k in [
            ("#N/A", 0),
            ("-", 1),
            (".", 2),
            ("nan", 0),
            ("NULL", 1),
            ("n/a", 2),
            ("<NA>", 0),
            ("#DIV/0!", 1),
            ("", 3),
            ("-nan", 0),
            ("1.#QNAN", 1),
            ("NaT", 2),
        ]
    },
    "infinity in words": lambda p, r: Variant(
        text(_set(r, _at(p), 0, "-Infinity")), None, refusal="must"
    ),
    "an overflow": lambda p, r: Variant(text(_set(r, _at(p), 1, "1e999")), None, refusal="must"),
    "an underflow": lambda p, r: Variant(
        text(_set(r, i := _at(p), 1, "1e-999")), _set(r, i, 1, "0")
    ),
    "labels 01, 1 and 1.0": lambda p, r: _labels(r, "01", "1", "1.0"),
    "labels that doubles merge": lambda p, r: _labels(
        r, "9007199254740992", "9007199254740993", "9007199254740994"
    ),
    "labels that singles merge": lambda p, r: _labels(r, "16777216", "16777217", "16777218"),
    "labels 01, 1 and 2": lambda p, r: _labels(r, "01", "1", "2"),
    "labels None, no and yes": lambda p, r: _labels(r, "None", "no", "yes"),
    "a class called NA": lambda p, r: Variant(
        text(_renamed(r, {"ant": "NA"})), r, names=("kind", "missing", "target")
    ),
    "a class called null": lambda p, r: Variant(
        text(_renamed(r, {"cat": "null"})), r, names=("kind", "missing", "target")
    ),
    "labels of case": lambda p, r: _labels(r, "A", "B", "a"),
    "labels of signs": lambda p, r: _labels(r, "-1", "0", "1"),
    "labels like dates": lambda p, r: _labels(r, "2020-01-01", "2020-01-02", "2020-01-03"),
    "labels like formulas": lambda p, r: _labels(r, "+x", "=1+1", "@y"),
    "labels of a megabyte": lambda p, r: _labels(r, "a" * 2**17, "a" * 2**17 + "b", "c"),
    "labels of emoji": lambda p, r: _labels(r, "🐜", "🐝", "🐱"),
    "levels 007 and 7": lambda p, r: _city(r, "007|07|7|8"),
    "levels 1 and 1.0": lambda p, r: _city(r, "1|1.0|1.00|2"),
    "levels beyond doubles": lambda p, r: _city(r, "|".join(str(2**53 + i) for i in range(4))),
    "levels TRUE and true": lambda p, r: _city(r, "FALSE|TRUE|false|true"),
    "levels with brackets": lambda p, r: _city(r, "<a>|[b]|{c}|~d"),
    **{
        f"{what}, {command[0]} {command[2]}": _moved(shift, scale, command)
        for what, shift, scale in [
            ("shifted by 1e9", 1e9, 1.0),
            ("shifted by -3e7", -3e7, 1.0),
            ("scaled by 1e-30", 0.0, 1e-30),
            ("scaled by 1e30", 0.0, 1e30),
            ("scaled by 1e-42", 0.0, 1e-42),
        ]
        for command in (CV, SVM)
    },
    "a constant column": lambda p, r: Variant(
        text([[*x[:3], "7.1", *x[3:]] for x in r], [*HEADER[:3], "k", *HEADER[3:]]), r, same=1
    ),
    "a large constant": lambda p, r: Variant(
        text([[*x[:3], "123456789.1", *x[3:]] for x in r], [*HEADER[:3], "k", *HEADER[3:]]),
        r,
        same=1,
    ),
    "groups beyond doubles": _huge_groups,
    "groups 007 and 7": _text_groups,
    "numbered header": _numbered_header,
    "header of case": lambda p, r: Variant(
        text([[*x[:4], "1", x[4]] for x in r], [*HEADER[:4], "Kind", "kind"]), r, same=1
    ),
    "a header cell with quotes": lambda p, r: Variant(text(r, ['"le""ngth"', *HEADER[1:]]), r),
    "a header of line breaks": lambda p, r: Variant(text(r, ['"le\nngth"', *HEADER[1:]]), r),
    "an empty header cell": lambda p, r: Variant(text(r, ["", *HEADER[1:]]), r),
    "only a header": lambda p, r: Variant(text([]), None, refusal="must"),
    "one class": lambda p, r: Variant(text(column(r, 4, lambda c: "ant")), None, refusal="must"),
    "target alone": lambda p, r: Variant(text([[x[4]] for x in r], ["kind"]), None, refusal="must"),
    "no newline at the end": lambda p, r: Variant(text(r).rstrip(), r),
    "4,000 columns": lambda p, r: Variant(
        text(
            [[*x[:3], *["0"] * 4000, *x[3:]] for x in r],
            [*HEADER[:3], *(f"z{i}" for i in range(4000)), *HEADER[3:]],
        ),
        r,
        same=1,
        command=TREE,
    ),
    "name of spaces": _file("a b  c.csv"),
    "name of brackets": _file("mine[1].csv"),
    "name of a star": _file("m*?.csv"),
    "name of a hash": _file("a#b%20.csv"),
    "name in capitals": _file("MINE.CSV"),
    "name of a line break": _file("a\nb.csv"),
    "name of bytes": _file("caf\udce9.csv"),
    "name of a comma": _file("a,b;c.csv"),
    "hidden name": _file(".csv.csv"),
}


def cases(seed: int) -> list[Callable[[Sandbox], Case]]:
    rows = clean(seed)
    return [
        lambda sandbox, build=build: case_of(sandbox, build(sandbox, rows))  # type: ignore[misc]
        for build in BUILDERS.values()
    ]


def names() -> list[str]:
    return list(BUILDERS)


def file_at(sandbox: Sandbox, rows: Rows) -> Path:
    return sandbox.write("mine.csv", text(rows))
