"""Malformed inputs by their number: tables, images, edges, YAML, options, modules, run folders.

``python -m tests.chaos.malformed`` gives each to ``main`` of a command, in this process. It ends
with status 0 and the right answer, or with status 1 or 2 and one line that says why.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import io
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import threading
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
from PIL import Image

from pipelines.graph.record import ITERATIONS, RANKS
from pipelines.parallel.record import EPOCHS
from pipelines.run_folder.names import CANDIDATES, CELLS
from tests.chaos.checks import must_be_one_line, without_times
from tests.chaos.program import Broken

SECONDS_TO_END = 300  # a case that takes longer hangs
MOST_MEMORY = 16 << 30  # of this process; what takes more fails
HERE = ("--cluster", "threads", "--workers", "1")
ON_TABLES = {
    "svm_grid": ("--n-c", "2", "--n-gamma", "1", "--folds", "2", *HERE),
    "cross_validate": ("--estimator", "tree", "--folds", "2", *HERE),
    "nn_bagging": (
        "--network",
        "mlp",
        "--n-bootstrap",
        "2",
        "--n-tuning",
        "1",
        "--folds",
        "2",
        "--max-epochs",
        "1",
        *HERE,
    ),
    # Its ranks are processes: it trains for the run folders below, and is planned elsewhere.
    "data_parallel": ("--network", "mlp", "--epochs", "1", "--cluster", "local", "--workers", "1"),
}
ON_IMAGES = ON_TABLES | {
    "nn_bagging": (*ON_TABLES["nn_bagging"][2:], "--network", "cnn"),
    "data_parallel": ("--network", "cnn", *ON_TABLES["data_parallel"][2:]),
}
ON_GRAPHS = {"pagerank": HERE}
CELLS_OF_TABLES = (
    "",
    " ",
    "NA",
    "?",
    "nan",
    "inf",
    "-inf",
    "1e400",
    "1e-320",
    "9" * 400,
    "-0",
    "0x10",
    "1_000",
    "1,5",
    "1.234,5",
    "١٢",
    "½",
    "=1+1",
    "\x1b[31m",
    "\x00",
    "a\nb",
    '"',
    "'",
    "é",
    "😀",
    "\ufeff",
    "None",
    "True",
    "2024-01-01",
    "12:30",
    "--target",
    "a" * 70_000,
    "[1, 2]",
    "{}",
    "\t",
    ";",
    "#",
)
VALUES = (
    "",
    "-1",
    "0",
    "1",
    "2",
    "3",
    "nan",
    "inf",
    "-inf",
    "1e400",
    "1e-400",
    "9" * 30,
    "1e9",
    "0.5",
    "x",
    "-",
    "--",
    "=",
    "a=b",
    "a=1,2",
    ",",
    "1,2",
    "2,1",
    "/",
    "/dev/null",
    ".",
    "..",
    "~",
    "{",
    "%s",
    "é😀",
    "\x1b[31m",
    "a" * 5000,
    "none.csv",
    "none.npy",
    "none.yaml",
    "os:system",
    "json:x",
    "none.py:F",
    "auto",
    "none",
    "off",
    "random",
    "local",
    "threads",
    "slurm",
    "tls://x",
    "tcp://:1",
    "1.",
    "True",
    "None",
    "1e3",
    "$(id)",
    "a b",
    "\n",
    "t",
    "p",
    "tree",
    "accuracy",
    "2 3",
)
JSON_VALUES: tuple[Any, ...] = (None, -1, 0, "x", [], {}, 1e308, True, [[1]], {"a": [{}]}, 2**70)


@dataclasses.dataclass(frozen=True)
class Case:
    """An input, the command it is given to, and the run whose answer is right if one is known."""

    about: str
    command: str
    argv: list[str]
    truth: Path | None = None
    folder: Path | None = None  # of the run; None for a dry run


class Hang(BaseException):
    """A case that does not end; no ``except Exception`` takes it."""


class Inputs:
    """Makes malformed inputs; each method is a kind of them.

    Parameters
    ----------
    folder : Path
    """

    def __init__(self, folder):
        self.folder = folder
        rng = np.random.default_rng(0)
        X = rng.normal(size=(48, 3))
        frame = pd.DataFrame(X.round(3), columns=list("pqr"))
        frame["s"] = np.array(["red", "green", "blue"])[rng.integers(0, 3, len(X))]
        frame["t"] = np.array(["no", "yes"])[(X[:, 0] + X[:, 1] > 0).astype(int)]
        self.frame, self.table = frame, folder / "table.csv"
        frame.to_csv(self.table, index=False)
        self.edges = pd.DataFrame(rng.integers(1, 13, (40, 2)), columns=["from", "to"])
        self.images = folder / "images"
        for i in range(24):
            (self.images / "ab"[i % 2]).mkdir(parents=True, exist_ok=True)
            pixels = rng.integers(0, 200, (8, 8, 3), np.uint8) + np.uint8(40 * (i % 2))
            Image.fromarray(pixels).save(self.images / "ab"[i % 2] / f"{i}.png")
        self.truths: dict[str, Path] = {}
        self._new = folder

    def case(self, kind, number, seed=0):
        """Make case ``number`` of a kind, always the same."""
        rng = np.random.default_rng([seed, list(KINDS).index(kind), number])
        self._new = self.folder / f"{kind}-{number}".replace(" ", "-")
        self._new.mkdir()
        return KINDS[kind](self, rng)

    def close(self):
        """Remove what the last case left."""
        shutil.rmtree(self._new, ignore_errors=True)

    def truth(self, name, command, argv):
        """Return the folder of an undisturbed run; carried out when first asked for."""
        if name not in self.truths:
            self.truths[name] = folder = self.folder / f"truth-{name}"
            with contextlib.redirect_stdout(io.StringIO()):
                status = main_of(command)([*argv, "--quiet", "--results", str(folder)])
            if status != 0:
                raise Broken(f"the undisturbed run of {command} gave exit status {status}")
        return self.truths[name]

    def _run(self, about, command, argv, truth=None):
        folder = self._new / "run"
        if command == "data_parallel":  # its ranks would be processes
            return Case(about, command, [*argv, "--dry-run"])
        return Case(about, command, [*argv, "--results", str(folder)], truth, folder)

    def table_as_text(self, rng):
        """Text with hostile cells, lines, bytes or separators; some mean the same as before."""
        command = str(rng.choice(list(ON_TABLES)))
        same = bool(rng.integers(3) == 0)
        if same:
            how, content = _same_table(self.frame, rng)
        else:
            rows = [list(self.frame), *self.frame.astype(str).to_numpy().tolist()]
            how, content = _hostile_lines(rows, ",", rng)
        path = self._new / f"table{rng.choice(['.csv', '.csv', '.tsv', '.txt', '.data'])}"
        path.write_bytes(content)
        options = [] if same or rng.integers(2) else ["--target", "t"]
        argv = ["--dataset", str(path), *options, *ON_TABLES[command]]
        truth = None
        if same and command != "data_parallel":
            clean = ["--dataset", str(self.table), *ON_TABLES[command]]
            truth = self.truth(f"{command}-table", command, clean)
        return self._run(f"{path.suffix} {how}", command, argv, truth)

    def table_as_arrays(self, rng):
        """An .npz or .parquet file of any types and shapes, whole or damaged."""
        command = str(rng.choice(list(ON_TABLES)))
        X, y = self.frame[list("pqr")].to_numpy(), self.frame["t"].to_numpy(str)
        if rng.integers(2):
            path, arrays = self._new / "table.npz", {"X": X, "y": y}
            name = str(rng.choice(["X", "y"]))
            how, arrays[name] = _hostile_array(arrays[name], rng)
            if rng.integers(6) == 0:
                how, arrays = f"no {name}", {k: v for k, v in arrays.items() if k != name}
            np.savez(path, **arrays)
        else:
            path = self._new / "table.parquet"
            how, column = _hostile_column(rng, len(X))
            name = str(rng.choice(list(self.frame)))
            self.frame.assign(**{name: column}).to_parquet(path)
        if rng.integers(3) == 0:
            how, content = _hostile_bytes(path.read_bytes(), rng)
            path.write_bytes(content)
        argv = ["--dataset", str(path), *ON_TABLES[command]]
        return self._run(f"{path.suffix} {how}", command, argv)

    def image_folder(self, rng):
        """A folder of images with something that is none, or of another kind."""
        command = str(rng.choice(list(ON_IMAGES)))
        folder = Path(shutil.copytree(self.images, self._new / "images"))
        victim = sorted(folder.glob("*/*"))[int(rng.integers(24))]
        how = str(rng.choice(list(_IMAGES)))
        _IMAGES[how](victim, rng)
        skip = ["--unreadable", "skip"] if rng.integers(2) else []
        argv = ["--dataset", str(folder), *skip, *ON_IMAGES[command]]
        return self._run(" ".join([how, *skip]), command, argv)

    def edge_file(self, rng):
        """Edges as text or Parquet, with hostile cells, lines or bytes."""
        suffix = str(rng.choice([".csv", ".tsv", ".txt", ".parquet"]))
        path, argv, truth = self._new / f"edges{suffix}", list(ON_GRAPHS["pagerank"]), None
        edges = self.edges.to_numpy().astype(str).tolist()
        if suffix == ".parquet":
            how, column = _hostile_column(rng, len(edges))
            self.edges.assign(**{str(rng.choice(["from", "to", "w"])): column}).to_parquet(path)
            if rng.integers(2):
                argv += ["--weight", "w"]
            if rng.integers(3) == 0:
                how, content = _hostile_bytes(path.read_bytes(), rng)
                path.write_bytes(content)
        else:
            separator = "," if suffix == ".csv" else "\t"
            head = [] if suffix == ".txt" else [["from", "to"]]
            how, content = _hostile_lines([*head, *edges], separator, rng)
            if rng.integers(4) == 0:
                how, ending = "unchanged but for its line ends", str(rng.choice(["\n", "\r\n"]))
                content = ending.join(separator.join(row) for row in [*head, *edges]).encode()
                truth = self.truth("pagerank-edges", "pagerank", [*argv, *self._edges()])
            path.write_bytes(content)
        distributed = ["--distributed"] if rng.integers(20) == 0 else []
        return self._run(
            f"{suffix} {how}", "pagerank", ["--edges", str(path), *argv, *distributed], truth
        )

    def _edges(self):
        self.edges.to_csv(path := self.folder / "edges.csv", index=False)
        return ["--edges", str(path)]

    def yaml_file(self, rng):
        """A search space, grid, preparation or queue's profile with a part that is wrong."""
        what = str(rng.choice(list(_YAML)))
        command, flags, text = _YAML[what]
        how, content = _hostile_yaml(text, rng)
        path = self._new / "file.yaml"
        path.write_bytes(content)
        argv = [word.replace("FILE", str(path)) for word in flags]
        argv = ["--dataset", str(self.table), *ON_TABLES[command], *argv]
        if what == "profile":
            return Case(f"{what} {how}", command, [*argv, "--dry-run"])
        return self._run(f"{what} {how}", command, argv)

    def options(self, rng):
        """Options with values that mean nothing, or too much; a dry run."""
        command = str(rng.choice([*ON_TABLES, "pagerank"]))
        module = importlib.import_module(f"pipelines.{command}")
        fields = [field for field in dataclasses.fields(module.Options) if field.name != "data_dir"]
        words = [] if command == "pagerank" else ["--dataset", str(self.table)]
        for _ in range(int(rng.integers(1, 4))):
            field = fields[int(rng.integers(len(fields)))]
            flag = "--" + field.name.replace("_", "-")
            n = 0 if field.default is False else field.metadata["nargs"] or 1
            n = int(rng.integers(1, 3)) if isinstance(n, str) else n
            if rng.integers(10) == 0:
                flag, n = flag[: int(rng.integers(2, len(flag)))], int(rng.integers(3))
            arguments = [str(word) for word in rng.choice(VALUES, n)]
            if choices := field.metadata["choices"]:
                arguments = [str(rng.choice([*choices, value])) for value in arguments]
            words += [flag, *arguments]
        return Case(" ".join(word[:40] for word in words), command, [*words, "--dry-run"])

    def user_module(self, rng):
        """A network, splitter or augmentation of the user's that is broken in its own way."""
        what = str(rng.choice(list(_MODULES)))
        command, flags, good = _MODULES[what]
        how = str(rng.choice(list(_FAULTS)))
        path = self._new / "mine.py"
        path.write_text(_FAULTS[how](good, rng))
        argv = [word.replace("FILE", str(path)) for word in flags]
        data = self.images if what == "augmentation" else self.table
        options = ON_IMAGES if what == "augmentation" else ON_TABLES
        return self._run(
            f"{what} {how}", command, ["--dataset", str(data), *options[command], *argv]
        )

    def run_folder(self, rng):
        """A run, finished or killed half way, with a damaged file; resumed, drawn or asked."""
        names = [*ON_TABLES, "pagerank"]
        # A resumption of data_parallel starts processes: few of it.
        command = str(rng.choice(names, p=[0.3, 0.2, 0.24, 0.06, 0.2]))
        if command == "pagerank":
            truth = self.truth("pagerank-edges", command, [*HERE, *self._edges()])
        else:
            clean = ["--dataset", str(self.table), *ON_TABLES[command]]
            truth = self.truth(f"{command}-table", command, clean)
        folder = Path(shutil.copytree(truth, self._new / "run"))
        killed = bool(rng.integers(2))
        if killed:
            as_killed(folder, int(rng.integers(0, 3)))
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        victim = files[int(rng.integers(len(files)))]
        if rng.integers(3) == 0:
            victim = folder / str(rng.choice(["run.json", "journal.jsonl"]))
        how = _hostile_file(victim, files, rng)
        acts = ["resume", "resume", "report"]
        acts += ["predict"] if command in ("svm_grid", "nn_bagging") else []
        act = str(rng.choice(acts))
        about = f"{act} {'killed' if killed else 'finished'}: {victim.name} {how}"
        if act == "resume":
            return Case(about, command, ["--resume", str(folder)], truth, folder)
        if act == "report":
            return Case(about, "report", [str(folder)])
        output = self._new / "answers.csv"
        argv = ["predict", str(folder), str(self.table), "--output", str(output)]
        return Case(about, command, argv, truth)


KINDS: dict[str, Callable[[Inputs, np.random.Generator], Case]] = {
    "tables as text": Inputs.table_as_text,
    "tables as arrays": Inputs.table_as_arrays,
    "image folders": Inputs.image_folder,
    "edge files": Inputs.edge_file,
    "YAML files": Inputs.yaml_file,
    "options": Inputs.options,
    "user modules": Inputs.user_module,
    "run folders": Inputs.run_folder,
}


def as_killed(folder, n_tasks):
    """Turn a finished run into one that was killed after ``n_tasks``: no digests, no answer."""
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(record | {"status": "running", "files": {}}))
    lines = (folder / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "journal.jsonl").write_bytes(b"".join(lines[:n_tasks]))
    for path in [*folder.glob("*.parquet"), *folder.glob("*.np?"), *folder.glob("*.html")]:
        path.unlink()


def _hostile_bytes(content, rng):
    at, damaged = int(rng.integers(0, len(content) or 1)), bytearray(content)
    how = str(
        rng.choice(["cut", "a bit flipped", "bytes overwritten", "empty", "doubled", "zeros"])
    )
    if how == "cut":
        return how, content[:at]
    if how == "a bit flipped" and content:
        damaged[at] ^= 1 << int(rng.integers(8))
    elif how == "bytes overwritten":
        damaged[at : at + 20] = rng.bytes(20)
    elif how == "zeros":
        damaged[at:] = bytes(len(content) - at)
    return how, {"empty": b"", "doubled": content * 2}.get(how, bytes(damaged))


def _hostile_lines(rows, separator, rng):
    how = str(rng.choice(["cells", "a column", "a line", "lines", "bytes", "an encoding"]))
    rows = [list(row) for row in rows]
    if how == "cells":
        for _ in range(int(rng.integers(1, 6))):
            row = rows[int(rng.integers(len(rows)))]
            row[int(rng.integers(len(row)))] = value = str(rng.choice(CELLS_OF_TABLES))
        how = f"a cell {value[:12]!r}"
    elif how == "a column":
        column, value = int(rng.integers(len(rows[-1]))), str(rng.choice(CELLS_OF_TABLES))
        for row in rows[int(rng.integers(2)) :]:
            row[min(column, len(row) - 1)] = value
        how = f"a column of {value[:12]!r}"
    elif how == "a line":
        row = [str(cell) for cell in rng.choice(CELLS_OF_TABLES, int(rng.integers(0, 9)))]
        rows.insert(int(rng.integers(len(rows) + 1)), row)
    elif how == "lines":
        kept = int(rng.integers(0, 12))
        how, rows = f"{kept} lines", rows[:kept]
    content = "\n".join(separator.join(row) for row in rows)
    if how == "bytes":
        return _hostile_bytes(content.encode(), rng)
    if how == "an encoding":
        how = str(rng.choice(["utf-16", "utf-32", "cp500", "utf-7", "utf-8-sig"]))
        return how, content.encode(how)
    return how, content.encode()


def _same_table(frame, rng):
    """Return a table written another way, which means the same."""
    how = str(rng.choice(["\r\n", "a mark at the start", "quotes", "tabs", "semicolons", "no end"]))
    text = frame.to_csv(
        index=False,
        sep={"tabs": "\t", "semicolons": ";"}.get(how, ","),
        quoting=1 if how == "quotes" else 0,
        lineterminator="\r\n" if how == "\r\n" else "\n",
    )
    if how == "no end":
        text = text.rstrip("\n")
    return f"the same with {how!r}", text.encode(
        "utf-8-sig" if how.startswith("a mark") else "utf-8"
    )


def _hostile_array(array, rng):
    ways = {
        "objects": lambda: array.astype(object),
        "empty": lambda: array[:0],
        "one row": lambda: array[:1],
        "fewer rows": lambda: array[:-3],
        "a scalar": lambda: np.array(3),
        "three axes": lambda: np.zeros((48, 2, 2, 2)),
        "complex": lambda: np.zeros((48, 3), complex),
        "NaN": lambda: np.full((48, 3), np.nan),
        "infinite": lambda: np.full((48, 3), np.inf),
        "huge": lambda: np.full((48, 3), 1e308),
        "float16": lambda: np.arange(144, dtype=np.float16).reshape(48, 3),
        "bool": lambda: np.zeros((48, 3), bool),
        "text": lambda: np.full((48, 3), "x"),
        "bytes": lambda: np.full(48, b"x"),
        "dates": lambda: np.full(48, np.datetime64("2024-01-01")),
        "durations": lambda: np.full(48, np.timedelta64(3, "s")),
        "records": lambda: np.zeros(48, [("a", int), ("b", float)]),
        "no columns": lambda: np.zeros((48, 0)),
        "big-endian": lambda: np.arange(48, dtype=">i4"),
        "unsigned": lambda: np.full(48, 2**64 - 1, np.uint64),
        "all different": lambda: np.arange(48).astype(str),
        "numbers": lambda: np.linspace(0, 1, 48),
        "constant": lambda: np.zeros(48),
    }
    how = str(rng.choice(list(ways)))
    return how, ways[how]()


def _hostile_column(rng, n):
    import decimal

    columns = {
        "lists": lambda: [[1, 2]] * n,
        "structs": lambda: [{"a": 1}] * n,
        "bytes": lambda: [b"\xff\x00"] * n,
        "nothing": lambda: [None] * n,
        "some missing": lambda: [None, 1.5] * (n // 2),
        "dates": lambda: pd.date_range("2024", periods=n, tz="UTC"),
        "durations": lambda: pd.to_timedelta(range(n), "s"),
        "decimals": lambda: [decimal.Decimal("1.10"), decimal.Decimal("2.25")] * (n // 2),
        "booleans": lambda: [True, False] * (n // 2),
        "categories": lambda: pd.Categorical(["u", "v"] * (n // 2)),
        "infinite": lambda: [np.inf, 1.0] * (n // 2),
        "huge numbers": lambda: [1e308, -1e308] * (n // 2),
        "negative": lambda: [-1.5, 2] * (n // 2),
        "large integers": lambda: [2**63 - 1, -(2**63)] * (n // 2),
        "control characters": lambda: ["\x1b[2J", "=cmd()"] * (n // 2),
        "all different": lambda: [f"n{i}" for i in range(n)],
        "empty text": lambda: ["", " "] * (n // 2),
        "zeros": lambda: [0] * n,
    }
    how = str(rng.choice(list(columns)))
    return how, columns[how]()


def _replace(victim, image, suffix=".png", **save_options):
    victim.unlink()
    image.save(victim.with_suffix(suffix), **save_options)


def _claims(victim, rng):
    """The header of a picture of 60,000 by 60,000 pixels before the data of a small one."""
    import struct
    import zlib

    content = bytearray(victim.read_bytes())
    content[16:24] = struct.pack(">II", 60_000, 60_000)
    content[29:33] = struct.pack(">I", zlib.crc32(bytes(content[12:29])))
    victim.write_bytes(bytes(content))


def _damage(victim, rng):
    victim.write_bytes(_hostile_bytes(victim.read_bytes(), rng)[1])


def _one_class(victim, rng):
    shutil.rmtree(victim.parent)


def _empty_class(victim, rng):
    shutil.rmtree(victim.parent)
    victim.parent.mkdir()


_IMAGES: dict[str, Callable[[Path, np.random.Generator], None]] = {
    "bytes": _damage,
    "text": lambda victim, rng: victim.write_text("no image") and None,
    "another size": lambda victim, rng: _replace(victim, Image.new("RGB", (9, 8))),
    "gray": lambda victim, rng: _replace(victim, Image.new("L", (8, 8))),
    "16 bits": lambda victim, rng: _replace(victim, Image.new("I;16", (8, 8), 40_000)),
    "palette": lambda victim, rng: _replace(victim, Image.new("P", (8, 8))),
    "transparent": lambda victim, rng: _replace(victim, Image.new("RGBA", (8, 8))),
    "CMYK": lambda victim, rng: _replace(victim, Image.new("CMYK", (8, 8)), ".jpg"),
    "floats": lambda victim, rng: _replace(victim, Image.new("F", (8, 8)), ".tiff"),
    "animated": lambda victim, rng: _replace(
        victim,
        Image.new("P", (8, 8)),
        ".tiff",
        save_all=True,
        append_images=[Image.new("P", (8, 8), 3)],
    ),
    "one pixel": lambda victim, rng: _replace(victim, Image.new("RGB", (1, 1))),
    "claims 3.6 thousand million pixels": _claims,
    "a wrong ending": lambda victim, rng: victim.rename(victim.with_suffix(".bmp")) and None,
    "a name of signs": lambda victim, rng: (
        victim.rename(victim.with_name("\x1b[31m é.png")) and None
    ),
    "a class of signs": lambda victim, rng: (
        victim.parent.rename(victim.parent.with_name("=cmd \x1b[2J")) and None
    ),
    "one class": _one_class,
    "an empty class": _empty_class,
    "a link to itself": lambda victim, rng: (victim.parent / "loop").symlink_to(victim.parent),
    "a link to nothing": lambda victim, rng: (victim.parent / "x.png").symlink_to("/none/x.png"),
    "a folder called image": lambda victim, rng: (victim.parent / "x.png").mkdir(),
    "a file beside the classes": lambda victim, rng: (
        shutil.copy(victim, victim.parents[1]) and None
    ),
    "a pipe": lambda victim, rng: os.mkfifo(victim.parent / "pipe.png"),
}

_YAML: dict[str, tuple[str, tuple[str, ...], str]] = {
    "space": (
        "nn_bagging",
        ("--space", "FILE"),
        "network: mlp\nn_hidden_layer: [4, 8]\nlearning_rate: {log10: [-3, -1]}\nmomentum: 0.9\n",
    ),
    "grid": (
        "cross_validate",
        ("--grid", "FILE"),
        "knn: {n_neighbors: [1, 3], weights: [uniform]}\nridge:\n  alpha: [1.0, 10]\n",
    ),
    "preparation": (
        "cross_validate",
        ("--preprocess", "FILE"),
        "numbers:\n- impute\n- standardize\ntext:\n- one-hot\n",
    ),
    "profile": (
        "svm_grid",
        ("--cluster", "slurm", "--profile", "FILE"),
        "queue: slurm\npartition: gpu\naccount: x\ngres: gpu:1\nwalltime: '01:00:00'\n"
        "cores: 2\nmemory: 4 GiB\nprologue: []\n",
    ),
}


def _hostile_yaml(text, rng):
    import yaml

    how = str(rng.choice(["values", "values", "bytes", "whole"]))
    if how == "bytes":
        return _hostile_bytes(text.encode(), rng)
    if how == "whole":
        wholes = {
            "an object": "!!python/object/apply:os.system [id]\n",
            "a list": "- a\n- b\n",
            "a number": "3\n",
            "nothing": "",
            "tabs": "a:\n\t- b\n",
            "an alias": "a: &a [*a]\n",
            "deep": "[" * 3000,
            "keys of all types": "1: 2\n[a]: 3\nnull: 4\n",
            "dates": "a: 2024-01-01",
            "laughs": "a: &a [x, x, x, x, x, x, x, x, x]\n"
            + "".join(
                f"{b}: &{b} [{', '.join(['*' + a] * 9)}]\n"
                for a, b in zip("abcdefgh", "bcdefghi", strict=True)
            ),
            "two documents": text + "---\n" + text,
            "twice": text + text,
        }
        how = str(rng.choice(list(wholes)))
        return how, wholes[how].encode()
    content = yaml.safe_load(text)
    node = content
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = keys[int(rng.integers(len(keys)))]
        inside = node[key]
        if not isinstance(inside, dict | list) or not inside or rng.integers(3) == 0:
            break
        node = inside
    if rng.integers(5) == 0 and isinstance(node, dict):
        node["é unknown"] = node.pop(key)
        return f"{key} under another name", yaml.safe_dump(content).encode()
    value = (*JSON_VALUES, float("nan"), float("inf"), "=1", -5, 10**12)[int(rng.integers(16))]
    node[key] = value
    return f"{key} = {value!r}", yaml.safe_dump(content).encode()


_NETWORK = """import torch
class Mine(torch.nn.Module):
    def __init__(self, n_features, n_classes, n_hidden_layer=4):
        super().__init__()
        self.output = torch.nn.Linear(n_features, n_classes)
    def forward(self, X):
        return self.output(X.flatten(1))
"""
_SPLITS = """import numpy as np
def Mine(X, y, groups):
    rows = np.arange(len(y))
    return [(rows[::2], rows[1::2]), (rows[1::2], rows[::2])]
"""
_AUGMENT = """import torch
def Mine(images, generator):
    return images
"""
_MODULES: dict[str, tuple[str, tuple[str, ...], str]] = {
    "network": ("nn_bagging", ("--network", "FILE:Mine"), _NETWORK),
    "network of ranks": ("data_parallel", ("--network", "FILE:Mine"), _NETWORK),
    "splitter": ("svm_grid", ("--cv", "FILE:Mine"), _SPLITS),
    "splitter of candidates": ("cross_validate", ("--cv", "FILE:Mine"), _SPLITS),
    "augmentation": ("nn_bagging", ("--augment", "FILE:Mine"), _AUGMENT),
}


def _returns(value):
    return lambda good, rng: "".join(
        line.split("return")[0] + f"return {value}\n" if "return" in line else line
        for line in good.splitlines(keepends=True)
    )


_FAULTS: dict[str, Callable[[str, np.random.Generator], str]] = {
    "is right": lambda good, rng: good,
    "cut": lambda good, rng: good[: int(rng.integers(len(good)))],
    "fails at import": lambda good, rng: "raise RuntimeError('two\\nlines')\n" + good,
    "ends Python": lambda good, rng: "import sys\nsys.exit(3)\n" + good,
    "ends Python when called": _returns("__import__('sys').exit(3)"),
    "imports what is not there": lambda good, rng: "import no_such_package\n" + good,
    "is no class": lambda good, rng: good + "Mine = 3\n",
    "is missing": lambda good, rng: good.replace("Mine", "Other"),
    "fails when called": _returns("1 / 0"),
    "fails with nothing to say": _returns("(_ for _ in ()).throw(AssertionError())"),
    "fails for want of memory": _returns("(_ for _ in ()).throw(MemoryError())"),
    "gives nothing": _returns("None"),
    "gives text": _returns("'x'"),
    "gives an empty list": _returns("[]"),
    "gives one number": _returns("torch.zeros(()) if 'torch' in globals() else 0"),
    "gives other shapes": _returns("torch.zeros(3, 7) if 'torch' in globals() else [([0], [1])]"),
    "gives NaN": _returns(
        "X.flatten(1)[:, :2] * float('nan') if 'X' in dir() and 'torch' in"
        " globals() else images * float('nan')"
    ),
    "gives rows that are not there": _returns("[([0, 1, 999], [2])]"),
    "gives rows twice": _returns("[(list(range(30)), list(range(30)))]"),
    "takes other arguments": lambda good, rng: (
        good.replace("n_features, n_classes", "a")
        .replace("X, y, groups", "")
        .replace("images, generator", "")
    ),
    "has no weights": lambda good, rng: good.replace(
        "self.output = torch.nn.Linear(n_features, n_classes)", "self.n = n_classes"
    ).replace("self.output(X.flatten(1))", "X.flatten(1)[:, : self.n]"),
    "does not call super": lambda good, rng: good.replace("super().__init__()", "pass"),
    "bytes": lambda good, rng: _hostile_bytes(good.encode(), rng)[1].decode("latin-1"),
}


def _hostile_file(victim, files, rng):
    how = str(rng.choice(["bytes", "bytes", "gone", "folder", "another file", "types", "deep"]))
    content = victim.read_bytes() if victim.exists() else b""
    if how == "gone":
        victim.unlink(missing_ok=True)
    elif how == "folder":
        victim.unlink(missing_ok=True)
        victim.mkdir()
    elif how == "another file":
        other = files[int(rng.integers(len(files)))]
        how = f"is {other.name}"
        victim.write_bytes(other.read_bytes())
    elif how == "types" and victim.suffix in (".json", ".jsonl") and content.strip():
        lines = content.splitlines() if victim.suffix == ".jsonl" else [content]
        records = [json.loads(line) for line in lines]
        for record in records[: 1 + int(rng.integers(len(records)))]:
            key = str(rng.choice(sorted(record)))
            record[key] = value = JSON_VALUES[int(rng.integers(len(JSON_VALUES)))]
            how = f"{key} = {value!r}"
            if rng.integers(4) == 0:
                del record[key]
        victim.write_text("\n".join(map(json.dumps, records)) + "\n")
    elif how == "deep":
        victim.write_bytes(b"[" * 100_000 + content)
    else:
        how, content = _hostile_bytes(content, rng)
        victim.write_bytes(content)
    return how


def main_of(command):
    """Return ``main`` of a command or of the report."""
    if command == "report":
        from pipelines.report.__main__ import main as report

        return report
    return importlib.import_module(f"pipelines.{command}").main


def outcome(case, seconds=0):
    """Give a case to its command; return its exit status in a word.

    Parameters
    ----------
    seconds : after which it hangs; 0 for no limit

    Raises
    ------
    Broken
        A traceback, more than one line, a hang, or another answer.
    """

    def hangs(*_):
        raise Hang(f"no end after {seconds} s")

    threads = threading.active_count()
    stderr = io.StringIO()
    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(seconds)
    try:
        with (
            contextlib.redirect_stderr(stderr),
            contextlib.redirect_stdout(io.StringIO()) as stdout,
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("default")
            status = main_of(case.command)(list(case.argv))
    except (SystemExit, Hang) as error:
        raise Broken(f"{type(error).__name__}: {error}") from None
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)
        ours = [
            frame
            for frame in where
            if "pipelines" in frame.filename or "cluster_setup" in frame.filename
        ]
        at = ours[-1] if ours else where[-1]
        text = str(error).splitlines()[:1]
        raise Broken(
            f"{type(error).__name__} {text} at {Path(at.filename).name}:{at.lineno} {at.name}"
        ) from None
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    if status not in (0, 1, 2):
        raise Broken(f"exit status {status}")
    if status:
        must_be_one_line(stderr.getvalue(), case.command)
        if any(ord(sign) < 32 for sign in stderr.getvalue().rstrip("\n")):
            raise Broken(f"a control character reaches the terminal: {stderr.getvalue()!r}")
    elif stderr.getvalue().replace("compiling code for this problem, kept for later runs\n", ""):
        raise Broken(f"finished, and on stderr: {stderr.getvalue()[-400:]}")
    if any(ord(sign) < 32 and sign != "\n" for sign in stdout.getvalue()):
        raise Broken(f"a control character reaches the terminal: {stdout.getvalue()!r}")
    if threading.active_count() > threads + 8:
        raise Broken(f"{threading.active_count() - threads} threads are left")
    if status == 0 and case.folder is not None:
        _must_be_right(case)
    elif status == 0 and case.truth is not None:
        output = Path(case.argv[-1])
        expected = case.truth.with_name(f"{case.truth.name}-answers.csv")
        if not expected.exists():
            ask = ["predict", str(case.truth), case.argv[2], "--output", str(expected)]
            with contextlib.redirect_stdout(io.StringIO()):
                main_of(case.command)(ask)
        if output.read_bytes() != expected.read_bytes():
            raise Broken("another prediction")
    return {0: "answered", 1: "stopped in one line", 2: "refused in one line"}[status]


ANSWERS = (
    "best",
    "test_error",
    "n_test_errors",
    "n_cells",
    "n_failed",
    "vote_test_error",
    "top",
    "trainings",
    "test_scores",
)
TABLES = (CANDIDATES, CELLS, RANKS, ITERATIONS, EPOCHS, "test_predictions.parquet")
TIMES = ("seconds", "worker", "implementation")


def _must_be_right(case):
    """Hold a finished run to itself, and to the one whose answer is right."""
    folder = case.folder
    assert folder is not None
    record = json.loads((folder / "run.json").read_text())
    if record["status"] != "finished" or not (folder / "report.html").exists():
        raise Broken(f"status 0 of a run that is {record['status']}, or has no page")
    predictions = folder / "test_predictions.parquet"
    if predictions.exists() and record.get("n_test_errors") is not None:
        table = pd.read_parquet(predictions)
        if int((table["true"] != table["predicted"]).sum()) != record["n_test_errors"]:
            raise Broken("the test error is not that of the predictions")
    if case.command == "pagerank":
        _must_be_ranks(case, folder)
    if case.truth is None:
        return
    expected = json.loads((case.truth / "run.json").read_text())
    for key in ANSWERS:
        if without_times(record.get(key)) != without_times(expected.get(key)):
            raise Broken(f"another answer: {key} is {record.get(key)}, not {expected.get(key)}")
    for name in TABLES:
        if (case.truth / name).exists():
            tables = [pd.read_parquet(where / name) for where in (folder, case.truth)]
            keep = [column for column in tables[1] if not any(time in column for time in TIMES)]
            try:
                pd.testing.assert_frame_equal(tables[0][keep], tables[1][keep])
            except (AssertionError, KeyError) as error:
                raise Broken(f"another {name}: {str(error).splitlines()[0]}") from None


def _must_be_ranks(case, folder):
    """Hold ranks to a distribution and, where the edges are plain, to networkx's."""
    ranks = pd.read_parquet(folder / RANKS)
    values = ranks.iloc[:, -1].to_numpy()
    if not np.isclose(values.sum(), 1, atol=1e-4) or values.min() < 0:
        raise Broken(f"ranks that are no distribution: {values}")
    if case.truth is not None and "--edges" in case.argv:
        path = case.truth.with_name("edges.csv")
        edges = pd.read_csv(path)
        graph = nx.MultiDiGraph(list(edges.itertuples(index=False, name=None)))
        theirs = nx.pagerank(graph, tol=1e-10)
        if not np.allclose(sorted(values), sorted(theirs.values()), atol=1e-5):
            raise Broken("other ranks than networkx's")


def main(argv=None):
    """Try malformed inputs; exit status 1 if one fell."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.malformed", description=__doc__)
    parser.add_argument("--only", action="append", choices=tuple(KINDS), help="this kind")
    parser.add_argument("--number", action="append", type=int, metavar="N", help="this case alone")
    parser.add_argument("--cases", type=int, default=150, metavar="N", help="of each kind")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default: 0")
    options = parser.parse_args(argv)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    page_of_runs = importlib.import_module("pipelines.report.page")
    page_of_runs.draw_figures = lambda run, figures: {}  # many seconds, and none of an input
    ended = Counter[str]()
    with tempfile.TemporaryDirectory(prefix="malformed-") as name:
        inputs = Inputs(Path(name))
        for kind in options.only or KINDS:
            for number in options.number or range(options.cases):
                case = inputs.case(kind, number, options.seed)
                try:
                    ended[outcome(case, SECONDS_TO_END)] += 1
                except Broken as error:
                    ended["fell"] += 1
                    print(f"{kind} {number}: {case.command}, {case.about!r}: {error}", flush=True)
                inputs.close()
    print(", ".join(f"{n} {word}" for word, n in ended.items()))
    return 1 if ended["fell"] else 0


if __name__ == "__main__":
    sys.exit(main())
