"""Parquet, NumPy's files, images and edge lists that mean what a clean one means."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.adversary.case import Case, Sandbox
from benchmarks.adversary.figures import difference, inconsistency
from benchmarks.adversary.tables import CV, HERE, SVM, TREE, clean

ARRAY = CV, SVM
Build = Callable[[Sandbox], Case]


def frame(seed: int) -> pd.DataFrame:
    rows = clean(seed)
    length, width, age, city, kind = (list(column) for column in zip(*rows, strict=True))
    numbers = {"length": np.array(length, float), "width": np.array(width, float)}
    return pd.DataFrame({**numbers, "age": np.array(age, int), "city": city, "kind": kind})


def _parquet(
    change: Callable[[Any], Any],
    *options: str,
    refusal: str = "may",
    same: int = 0,
    sound: bool = True,
    **keywords: Any,
) -> Build:
    def build(sandbox: Sandbox) -> Case:
        data = frame(sandbox.seed)
        clean_path = sandbox.folder / "twin.parquet"
        data.to_parquet(clean_path, index=False)
        new = change(data.copy())
        path = sandbox.folder / "mine.parquet"
        if isinstance(new, pa.Table):
            pq.write_table(new, path, **keywords)
        else:
            new.to_parquet(path, **keywords)
        command = sandbox.random.choice([CV, TREE, SVM])
        words = [*command, "--target", "kind", *HERE]
        argv = [*words, "--dataset", str(path), *options, "--results", str(sandbox.out)]

        def check(output: str) -> str:
            wrong = inconsistency(sandbox.out)
            if wrong or not sound:
                return wrong
            other = sandbox.twin([*words, "--dataset", clean_path], clean_path)
            return difference(sandbox.out, other, same)

        return Case(argv, check, refusal)

    return build


def _cast(name: str, kind: Any) -> Callable[[Any], Any]:
    def change(data: pd.DataFrame) -> Any:
        table = pa.Table.from_pandas(data, preserve_index=False)
        k = table.schema.get_field_index(name)
        return table.set_column(k, name, table.column(name).cast(kind))

    return change


def _put(name: str, make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda data: data.assign(**{name: make(data)})


def digits(n: int = 240) -> tuple[Any, Any]:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    return X[:n], y[:n]


def _npz(
    change: Callable[[Any, Any], dict[str, Any]],
    refusal: str = "may",
    same: int = 0,
    sound: bool = True,
    renamed: bool = False,
) -> Build:
    def build(sandbox: Sandbox) -> Case:
        X, y = digits()
        clean_path, path = sandbox.folder / "twin.npz", sandbox.folder / "mine.npz"
        np.savez(clean_path, X=X, y=y)
        np.savez(path, **change(X, y))
        words = [*sandbox.random.choice(ARRAY), *HERE]
        argv = [*words, "--dataset", str(path), "--results", str(sandbox.out)]

        def check(output: str) -> str:
            wrong = inconsistency(sandbox.out)
            if wrong or not sound:
                return wrong
            return difference(
                sandbox.out,
                sandbox.twin([*words, "--dataset", clean_path], clean_path),
                same,
                not renamed,
            )

        return Case(argv, check, refusal)

    return build


def _raw(name: str, make: Callable[[], bytes]) -> Build:
    def build(sandbox: Sandbox) -> Case:
        path = sandbox.write(name, make())
        argv = [*CV, *HERE, "--dataset", str(path), "--results", str(sandbox.out)]
        return Case(argv, refusal="must")

    return build


def _bytes(save: Callable[[Any], None]) -> Callable[[], bytes]:
    def make() -> bytes:
        buffer = io.BytesIO()
        save(buffer)
        return buffer.getvalue()

    return make


def _bomb(buffer: Any) -> None:
    """A header that promises 8 TB."""
    with zipfile.ZipFile(buffer, "w") as file:
        head = "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 1000000), }"
        raw = b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little") + head.ljust(117).encode() + b"\n"
        file.writestr("X.npy", raw)
        file.writestr("y.npy", raw)


ARRAYS: dict[str, Build] = {
    "categories": _parquet(lambda d: d.astype({"city": "category", "kind": "category"})),
    "categories of another order": _parquet(
        _put(
            "city",
            lambda d: pd.Categorical(d.city, ["Wien", "Ulm", "Kiel", "Bonn", "Graz"], ordered=True),
        ),
        same=1,
    ),
    "classes never used": _parquet(
        _put("kind", lambda d: pd.Categorical(d.kind, ["cat", "bee", "ant", "dog"]))
    ),
    "categories of numbers": _parquet(_put("age", lambda d: d.age.astype("category"))),
    "nullable": _parquet(lambda d: d.convert_dtypes()),
    "nullable, masked values": _parquet(_put("age", lambda d: pd.array(d.age, "Int64"))),
    "single precision": _parquet(
        lambda d: d.astype({"length": "float32", "width": "float32"}), same=2
    ),
    "half precision": _parquet(_cast("length", pa.float16()), same=2),
    "8 bits": _parquet(lambda d: d.astype({"age": "int8"})),
    "unsigned beyond 2^53": _parquet(
        _put("age", lambda d: d.age.astype("uint64") + np.uint64(2**63))
    ),
    "decimals": _parquet(_put("length", lambda d: [Decimal(str(x)) for x in d.length])),
    "decimals of 30 digits": _parquet(
        _put("length", lambda d: [Decimal(str(x)) + Decimal(10) ** 20 for x in d.length])
    ),
    "large strings": _parquet(_cast("city", pa.large_string())),
    "string views": _parquet(_cast("kind", pa.string_view())),
    "bytes": _parquet(_cast("kind", pa.binary())),
    "bytes of a category": _parquet(_cast("city", pa.binary())),
    "dictionary": _parquet(_cast("city", pa.dictionary(pa.int8(), pa.string()))),
    "numbers as text": _parquet(lambda d: d.astype({"length": str, "age": str})),
    "numbers as objects": _parquet(_put("city", lambda d: d.city), same=0),
    "a filtered index": _parquet(lambda d: d.set_index(np.arange(500, 620)[::-1])),
    "a named index": _parquet(lambda d: d.set_index(pd.Index(np.arange(120) * 3 + 7, name="row"))),
    "the index is a feature": _parquet(lambda d: d.set_index("length"), sound=False),
    "the index is the target": _parquet(lambda d: d.set_index("kind"), sound=False),
    "two levels of header": _parquet(
        lambda d: d.set_axis(pd.MultiIndex.from_product([["a"], d.columns]), axis=1), sound=False
    ),
    "header of numbers": _parquet(lambda d: d.rename(columns={"age": "1", "length": "2"})),
    "row groups of 7": _parquet(lambda d: d, row_group_size=7),
    "zstd": _parquet(lambda d: d, compression="zstd"),
    "no rows": _parquet(lambda d: d[:0], refusal="must"),
    "truth values": _parquet(_put("age", lambda d: d.age > 40), sound=False),
    "truth values and missing": _parquet(
        _put("age", lambda d: (d.age > 40).astype("boolean").mask(d.age > 80)),
        sound=False,
    ),
    "times of a zone": _parquet(
        lambda d: d.assign(when=pd.Timestamp("2024-01-01", tz="Asia/Tokyo"))
    ),
    "durations": _parquet(lambda d: d.assign(took=pd.to_timedelta(d.age, "s")), sound=False),
    "periods": _parquet(
        lambda d: d.assign(took=pd.period_range("2020", periods=120, freq="M")), sound=False
    ),
    "lists": _parquet(lambda d: d.assign(bag=[[1, 2]] * 120), sound=False),
    "structs": _parquet(lambda d: d.assign(bag=[{"a": 1}] * 120), sound=False),
    "all null": _parquet(lambda d: d.assign(none=None)),
    "null type": _parquet(lambda d: pa.Table.from_pandas(d).append_column("none", pa.nulls(120))),
    "infinite": _parquet(
        _put("length", lambda d: d.length.where(d.age != d.age.max(), -np.inf)), refusal="must"
    ),
    "target nullable with missing": _parquet(
        _put("kind", lambda d: d.kind.where(d.index > 0)), sound=False
    ),
    "target of lists": _parquet(_put("kind", lambda d: [[k] for k in d.kind]), refusal="must"),
    "folder of parts": lambda sandbox: _parts(sandbox),
    "truncated": lambda sandbox: _cut(sandbox),
    "X in Fortran order": _npz(lambda X, y: {"X": np.asfortranarray(X), "y": y}),
    "X of 8 bits": _npz(lambda X, y: {"X": X.astype(np.uint8), "y": y}),
    "X of signed 8 bits, y too": _npz(
        lambda X, y: {"X": X.astype(np.int8), "y": y.astype(np.int8)}
    ),
    "X of halves": _npz(lambda X, y: {"X": X.astype(np.float16), "y": y}),
    "X of long doubles": _npz(lambda X, y: {"X": X.astype(np.longdouble), "y": y}),
    "X complex": _npz(lambda X, y: {"X": X.astype(complex), "y": y}),
    "X complex with an imaginary part": _npz(lambda X, y: {"X": X + 1j, "y": y}, refusal="must"),
    "X of text": _npz(lambda X, y: {"X": X.astype(str), "y": y}),
    "X of bytes": _npz(lambda X, y: {"X": X.astype("S5"), "y": y}),
    "X truth values": _npz(lambda X, y: {"X": X > 7, "y": y}, sound=False),
    "X of dates": _npz(lambda X, y: {"X": X.astype("datetime64[s]"), "y": y}, sound=False),
    "X structured": _npz(lambda X, y: {"X": np.rec.fromarrays(list(X.T)), "y": y}),
    "X of images": _npz(lambda X, y: {"X": X.reshape(-1, 8, 8), "y": y}, sound=False),
    "X transposed": _npz(lambda X, y: {"X": X.T, "y": y}, refusal="must"),
    "X of no columns": _npz(lambda X, y: {"X": X[:, :0], "y": y}, refusal="must"),
    "X of one dimension": _npz(lambda X, y: {"X": X[:, 10], "y": y}, sound=False),
    "X shifted by 1e9": _npz(lambda X, y: {"X": X + 1e9, "y": y}, same=3),
    "X scaled by 1e-25": _npz(lambda X, y: {"X": X * 1e-25, "y": y}, same=3),
    "X with NaN": _npz(lambda X, y: {"X": np.where(X == 16, np.nan, X), "y": y}, sound=False),
    "X with a masked array": _npz(
        lambda X, y: {"X": np.ma.masked_equal(X, 16.0), "y": y}, sound=False
    ),
    "y of a column": _npz(lambda X, y: {"X": X, "y": y[:, None]}),
    "y of a row": _npz(lambda X, y: {"X": X, "y": y[None]}),
    "y one-hot": _npz(lambda X, y: {"X": X, "y": np.eye(10)[y]}, refusal="must"),
    "y of floats": _npz(lambda X, y: {"X": X, "y": y.astype(float)}),
    "y of halves": _npz(lambda X, y: {"X": X, "y": y + 0.5}, sound=False),
    "y of bytes": _npz(lambda X, y: {"X": X, "y": y.astype("S3")}),
    "y of padded text": _npz(lambda X, y: {"X": X, "y": np.array([f"{k:>3}" for k in y])}),
    "y of large integers": _npz(lambda X, y: {"X": X, "y": y.astype(np.int64) + 2**60}),
    "y of unsigned": _npz(lambda X, y: {"X": X, "y": y.astype(np.uint64) + np.uint64(2**63)}),
    "y of big end": _npz(lambda X, y: {"X": X.astype(">f4"), "y": y.astype(">i2")}),
    "y of dates": _npz(lambda X, y: {"X": X, "y": y.astype("datetime64[D]")}),
    "y with NaN": _npz(lambda X, y: {"X": X, "y": np.where(y == 3, np.nan, y)}, refusal="must"),
    "y of objects": _npz(lambda X, y: {"X": X, "y": y.astype(object)}),
    "y complex": _npz(lambda X, y: {"X": X, "y": y.astype(complex)}),
    "an array more": _npz(lambda X, y: {"X": X, "y": y, "X_train": X[:3], "note": np.array("hi")}),
    "x in lower case": _npz(lambda X, y: {"x": X, "Y": y}),
    "X alone": _npz(lambda X, y: {"X": X}, refusal="must"),
    "an .npy": _raw("mine.npy", _bytes(lambda b: np.save(b, np.eye(9)))),
    "8 TB promised": _raw("mine.npz", _bytes(_bomb)),
    "an .npy called .npz": _raw("mine.npz", _bytes(lambda b: np.save(b, np.eye(9)))),
    "an empty zip": _raw("mine.npz", _bytes(lambda b: zipfile.ZipFile(b, "w").close())),
}


def _parts(sandbox: Sandbox) -> Case:
    folder = sandbox.folder / "mine.parquet"
    folder.mkdir()
    data = frame(sandbox.seed)
    data[:60].to_parquet(folder / "part-0.parquet")
    data[60:].to_parquet(folder / "part-1.parquet")
    data.to_parquet(twin := sandbox.folder / "twin.parquet")
    words = [*TREE, "--target", "kind", *HERE]
    argv = [*words, "--dataset", str(folder), "--results", str(sandbox.out)]
    return Case(
        argv,
        lambda output: difference(sandbox.out, sandbox.twin([*words, "--dataset", twin], twin)),
    )


def _cut(sandbox: Sandbox) -> Case:
    frame(sandbox.seed).to_parquet(path := sandbox.folder / "mine.parquet")
    path.write_bytes(path.read_bytes()[: -sandbox.random.randrange(1, 900)])
    argv = [*TREE, "--target", "kind", *HERE, "--dataset", str(path), "--results", str(sandbox.out)]
    return Case(argv, refusal="must")
