"""Run folders that were tampered with: resumed, the figures are the undisturbed run's."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.adversary.case import Case, Sandbox
from benchmarks.adversary.figures import difference, inconsistency
from benchmarks.adversary.tables import HERE, SVM, clean, column, text

GRID = ["svm_grid", "--limit", "300", "--n-c", "3", "--n-gamma", "6", "--folds", "3", *HERE]
OTHER = [*GRID, "--seed", "5"]
Build = Callable[[Sandbox], Case]
Change = Callable[[Path, Sandbox], object]


def records(folder: Path) -> dict[str, float]:
    """When each task of the journal began; failed ones and lines that are no JSON are left out."""
    tasks: dict[str, float] = {}
    if not (path := folder / "journal.jsonl").is_file():  # a pipe would be waited for
        return tasks
    lines = path.read_bytes().splitlines()
    for line in lines:
        try:
            record = json.loads(line)
            if not all(str(row.get("status")).startswith("failed") for row in record["rows"]):
                tasks[record["task"]] = record["started"]
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
    return tasks


def partial(sandbox: Sandbox) -> Path:
    """A copy of a run that was killed amid its grid."""
    with sandbox.locks.setdefault("partial", threading.Lock()):
        folder = sandbox.root / "twins" / "partial"
        if not folder.exists():
            stop_amid(sandbox, [*GRID, "--results", folder], folder)
    shutil.copytree(folder, sandbox.out)
    return sandbox.out


def stop_amid(sandbox: Sandbox, argv: list[Any], folder: Path) -> None:
    words = [*sandbox.command(argv)]
    process = subprocess.Popen(
        words,
        env=sandbox.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while len(records(folder)) < 3 and process.poll() is None:
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _resumed(
    change: Change,
    *options: str,
    whole: bool = False,
    twins: list[list[str]] | None = None,
    keep: bool = True,
    refusal: str = "may",
    command: str = "svm_grid",
) -> Build:
    """Spoil a folder, resume it; ``keep``: no record that was whole may be computed again."""

    def build(sandbox: Sandbox) -> Case:
        if whole:
            shutil.copytree(sandbox.twin(GRID), sandbox.out)
        else:
            partial(sandbox)
        change(sandbox.out, sandbox)
        before = records(sandbox.out)
        argv = [command, "--resume", str(sandbox.out), "--quiet", *options]

        def check(output: str) -> str:
            wrong = inconsistency(sandbox.out)
            differences = [difference(sandbox.out, sandbox.twin(twin)) for twin in twins or [GRID]]
            if wrong or all(differences):
                return wrong or differences[0]
            after = records(sandbox.out)
            again = [task for task, began in before.items() if after.get(task, began) != began]
            return f"finished work was computed again: {again}" if keep and again else ""

        return Case(argv, check, refusal)

    return build


def _journal(change: Callable[[bytes, Sandbox], bytes], **keywords: Any) -> Build:
    def spoil(folder: Path, sandbox: Sandbox) -> None:
        path = folder / "journal.jsonl"
        path.write_bytes(change(path.read_bytes(), sandbox))

    return _resumed(spoil, **keywords)


def _record(change: Callable[[dict[str, Any]], Any], **keywords: Any) -> Build:
    def spoil(folder: Path, sandbox: Sandbox) -> None:
        record = json.loads((folder / "run.json").read_text())
        (folder / "run.json").write_text(json.dumps(change(record) or record, indent=2))

    return _resumed(spoil, **keywords)


def _option(name: str, value: Any, *twin: str, **keywords: Any) -> Build:
    """An option edited in run.json: refused, without effect, or that of the run with it."""
    twins = [GRID, [*GRID, *twin]] if twin else [GRID]
    return _record(
        lambda r: r["options"].update({name: value}), twins=twins, keep=not twin, **keywords
    )


def _file(
    name: str, change: Callable[[Path, Sandbox], Any], whole: bool = True, **keywords: Any
) -> Build:
    return _resumed(lambda folder, sandbox: change(folder / name, sandbox), whole=whole, **keywords)


def _of_other(path: Path, sandbox: Sandbox) -> None:
    shutil.copy(sandbox.twin(OTHER) / path.name, path)


def _content(raw: bytes) -> Change:
    return lambda path, sandbox: path.write_bytes(raw)


def _flip(path: Path, sandbox: Sandbox) -> None:
    raw = bytearray(path.read_bytes())
    raw[sandbox.random.randrange(len(raw))] ^= 1 << sandbox.random.randrange(8)
    path.write_bytes(raw)


def _better(path: Path, sandbox: Sandbox) -> None:
    table = pd.read_parquet(path)
    table[[n for n in table if n in ("error", "error_mean")]] = 0.0
    table.to_parquet(path)


def _away(path: Path, sandbox: Sandbox) -> None:
    """The file elsewhere, a link in its place."""
    path.rename(sandbox.folder / path.name)
    path.symlink_to(sandbox.folder / path.name)


def _link_to(folder: Path, link: Path) -> str:
    link.symlink_to(folder)
    return str(link)


def _after(change: Change, path: Path, sandbox: Sandbox) -> list[str]:
    """The report of a folder with a changed file."""
    change(path, sandbox)
    return ["report", str(path.parent)]


def _folder(path: Path, sandbox: Sandbox) -> None:
    path.unlink()
    path.mkdir()


def _pipe(path: Path, sandbox: Sandbox) -> None:
    path.unlink()
    os.mkfifo(path)


def _loop(path: Path, sandbox: Sandbox) -> None:
    path.unlink()
    path.symlink_to(path.name)


def _flipped(raw: bytes, sandbox: Sandbox) -> bytes:
    out, k = bytearray(raw), sandbox.random.randrange(len(raw))
    out[k] ^= 1 << sandbox.random.randrange(8)
    return bytes(out)


def _lines(change: Callable[[list[bytes]], list[bytes]], **keywords: Any) -> Build:
    return _journal(
        lambda raw, sandbox: b"".join(line + b"\n" for line in change(raw.splitlines())), **keywords
    )


def _words(
    words: Callable[[Path, Sandbox], list[str]],
    refusal: str = "may",
    whole: bool = False,
    cwd: bool = False,
) -> Build:
    """Another command line on the folder."""

    def build(sandbox: Sandbox) -> Case:
        if whole:
            shutil.copytree(sandbox.twin(GRID), sandbox.out)
        else:
            partial(sandbox)
        argv = words(sandbox.out, sandbox)
        resumed = "--resume" in argv and "--dry-run" not in argv

        def check(output: str) -> str:
            return difference(sandbox.out, sandbox.twin(GRID)) if resumed else ""

        return Case(argv, check, refusal)

    return build


def _extend(change: Change, *options: str, refusal: str = "may") -> Build:
    """``--extend`` a changed run: as if nothing was taken from it."""

    def build(sandbox: Sandbox) -> Case:
        shutil.copytree(sandbox.twin(GRID), old := sandbox.folder / "old")
        change(old, sandbox)
        words = [*GRID, "--n-c", "5", *options]
        argv = [*words, "--extend", str(old), "--results", str(sandbox.out)]
        return Case(
            argv,
            lambda output: (
                inconsistency(sandbox.out) or difference(sandbox.out, sandbox.twin(words))
            ),
            refusal,
        )

    return build


def _predict(
    change: Callable[[list[list[str]]], tuple[list[list[str]], list[str]]],
    refusal: str = "may",
    spoil: Change | None = None,
    same: bool = True,
) -> Build:
    """Predictions for a table that means what the training table means."""

    def build(sandbox: Sandbox) -> Case:
        rows = clean(sandbox.seed)
        path = sandbox.write("mine.csv", text(rows))
        model = sandbox.twin([*SVM, "--target", "kind", *HERE, "--dataset", path], path)
        shutil.copytree(model, sandbox.out)
        if spoil:
            spoil(sandbox.out, sandbox)
        new, header = change([list(row) for row in rows])
        table = sandbox.write("new.csv", text(new, header))
        argv = [
            "svm_grid",
            "predict",
            str(sandbox.out),
            str(table),
            "--output",
            str(sandbox.folder / "a.csv"),
        ]

        def check(output: str) -> str:
            other = sandbox.folder / "b.csv"
            ended = sandbox.run(["svm_grid", "predict", model, path, "--output", other])
            if ended.status:
                return f"the clean table is refused: {ended.complained}"
            predicted, expected = (
                pd.read_csv(p, dtype=str)["predicted"] for p in (sandbox.folder / "a.csv", other)
            )
            differ = len(predicted) != len(expected) or (predicted != expected).any()
            return f"{(predicted != expected).sum()} predictions differ" if same and differ else ""

        return Case(argv, check, refusal)

    return build


H = ["length", "width", "age", "city", "kind"]
FOLDERS: dict[str, Build] = {
    "journal, blank lines": _lines(lambda lines: [x for line in lines for x in (b"", line, b" ")]),
    "journal, line ends of Windows": _lines(lambda lines: [line + b"\r" for line in lines]),
    "journal with a mark": _journal(lambda raw, p: b"\xef\xbb\xbf" + raw, keep=False),
    "journal reversed": _lines(lambda lines: lines[::-1]),
    "journal twice": _lines(lambda lines: lines * 2),
    "journal of utf-16": _journal(lambda raw, p: raw.decode().encode("utf-16")),
    "journal emptied": _journal(lambda raw, p: b""),
    "journal, 10 MB of NUL": _journal(lambda raw, p: raw + bytes(10**7)),
    "journal, a bit": _journal(_flipped, keep=False),
    "journal, bits": _journal(
        lambda raw, p: _flipped(_flipped(_flipped(raw, p), p), p), keep=False
    ),
    "journal, lines of other JSON": _lines(
        lambda lines: [b"null", b"[]", b"{}", b"1e999", b'"x"', b"[" * 5000, *lines]
    ),
    "journal spaced otherwise": _lines(
        lambda lines: [
            json.dumps(json.loads(line), separators=(",", ":")).encode() for line in lines
        ],
        keep=False,
    ),
    "journal, keys sorted": _lines(
        lambda lines: [json.dumps(json.loads(line), sort_keys=True).encode() for line in lines],
        keep=False,
    ),
    "journal, better scores": _journal(
        lambda raw, p: raw.replace(b'"n_errors": ', b'"n_errors": 0'), keep=False
    ),
    "journal joined": _journal(lambda raw, p: raw.replace(b"\n", b" ", 1), keep=False),
    "journal, first line cut": _journal(lambda raw, p: raw[p.random.randrange(1, 500) :]),
    "journal deleted": _file("journal.jsonl", lambda f, p: f.unlink(), whole=False),
    "journal a folder": _file("journal.jsonl", _folder, whole=False),
    "journal a pipe": _file("journal.jsonl", _pipe, whole=False),
    "journal a loop": _file("journal.jsonl", _loop, whole=False),
    "journal a link": _file("journal.jsonl", _away, whole=False),
    "finished, journal emptied": _file("journal.jsonl", lambda f, p: f.write_bytes(b"")),
    "finished, journal of another": _file("journal.jsonl", _of_other, keep=False),
    "finished, a bit of the journal": _file("journal.jsonl", _flip, keep=False),
    **{
        f"run.json: {name}": _file("run.json", _content(raw), whole=False)
        for name, raw in {
            "null": b"null",
            "a list": b"[]",
            "empty": b"",
            "a number": b"7",
            "half": b'{"command": "svm_grid", ',
            "deep": b"[" * 100000,
            "latin-1": b'{"command": "\xe9"}',
            "NUL": bytes(4096),
        }.items()
    },
    "run.json with a mark": _file(
        "run.json", lambda f, p: f.write_bytes(b"\xef\xbb\xbf" + f.read_bytes()), whole=False
    ),
    "run.json a link": _file("run.json", _away, whole=False),
    "run.json a pipe": _file("run.json", _pipe, whole=False),
    "run.json of another run": _file(
        "run.json", _of_other, whole=False, twins=[GRID, OTHER], keep=False
    ),
    "run.json deleted": _file("run.json", lambda f, p: f.unlink(), whole=False),
    "option folds": _option("folds", 4, "--folds", "4"),
    "option seed": _option("seed", 5, "--seed", "5"),
    "option n_c": _option("n_c", 4, "--n-c", "4"),
    "option limit": _option("limit", 250, "--limit", "250"),
    "option decision": _option("decision", "ovr", "--decision", "ovr"),
    "option kernel unknown": _option("kernel", "laplace"),
    "option folds of text": _option("folds", "3"),
    "option folds of float": _option("folds", 3.0),
    "option folds null": _option("folds", None),
    "option folds true": _option("folds", True),
    "option log_c of text": _option("log_c", "-3 6"),
    "option unknown": _option("no_such", 1),
    "option tol NaN": _option("tol", float("nan")),
    "option dataset": _option("dataset", "mnist"),
    "option scoring": _option("scoring", "f1_macro", "--scoring", "f1_macro"),
    "option missing": _record(lambda r: r["options"].pop("folds")),
    "options null": _record(lambda r: r.update(options=None)),
    "options a list": _record(lambda r: r.update(options=[1])),
    "no options": _record(lambda r: r.pop("options")),
    "status nonsense": _record(lambda r: r.update(status="half")),
    "status finished": _record(lambda r: r.update(status="finished")),
    "status null": _record(lambda r: r.update(status=None)),
    "another command": _record(lambda r: r.update(command="cross_validate")),
    "command null": _record(lambda r: r.update(command=None)),
    "fingerprint": _record(lambda r: r.update(fingerprint="0" * 64)),
    "fingerprint null": _record(lambda r: r.update(fingerprint=None)),
    "versions of the future": _record(
        lambda r: r.update(versions=dict.fromkeys(r.get("versions") or {}, "99.0"), commit="f" * 40)
    ),
    "versions a list": _record(lambda r: r.update(versions=[])),
    "wall_seconds text": _record(lambda r: r.update(wall_seconds="long")),
    "wall_seconds NaN": _record(lambda r: r.update(wall_seconds=float("nan"))),
    "started nonsense": _record(lambda r: r.update(started="yesterday")),
    "dataset null": _record(lambda r: r.update(dataset=None)),
    "dataset of other sums": _record(
        lambda r: (
            r["dataset"].update({k: "0" * 64 for k in r["dataset"] if "sha" in k})
            if r.get("dataset")
            else None
        )
    ),
    "files outside": _record(
        lambda r: r.setdefault("files", {}).update({"../../x": {"bytes": 1, "sha256": "0"}}),
        whole=True,
    ),
    "files null": _record(lambda r: r.update(files=None), whole=True),
    "argv null": _record(lambda r: r.update(argv=None)),
    "seed otherwise": _record(lambda r: r.update(seed=9)),
    "keys more": _record(lambda r: r.update(extra={"a": [1] * 9})),
    "machine null": _record(lambda r: r.update(machine=None, cluster=None)),
    **{
        f"finished, {name} {what}": _file(name, change)
        for name in (
            "candidates.parquet",
            "cv_results.parquet",
            "model.safetensors",
            "test_predictions.parquet",
        )
        for what, change in (("of another", _of_other), ("a bit", _flip))
    },
    "finished, better cells": _file("cv_results.parquet", _better),
    "finished, better candidates": _file("candidates.parquet", _better),
    "finished, candidates a folder": _file("candidates.parquet", _folder),
    "finished, model a pipe": _file("model.safetensors", _pipe),
    "finished, page a folder": _file("report.html", _folder),
    "finished, figure a loop": _file("heat_map.svg", _loop),
    "finished, model a link": _file("model.safetensors", _away),
    "finished, a file more": _resumed(
        lambda f, p: (f / "journal.jsonl.tmp").write_text("x"), whole=True
    ),
    "resumed by another command": _resumed(
        lambda f, p: None, command="cross_validate", refusal="must"
    ),
    "resumed by pagerank": _resumed(lambda f, p: None, command="pagerank", refusal="must"),
    "resumed with folds": _resumed(lambda f, p: None, "--folds", "4", refusal="must"),
    "resumed with a seed": _resumed(lambda f, p: None, "--seed", "5", refusal="must"),
    "resumed with its own folds": _resumed(lambda f, p: None, "--folds", "3"),
    "resumed with memory": _resumed(lambda f, p: None, "--memory", "0.001"),
    "resumed on a cluster": _resumed(lambda f, p: None, "--cluster", "local", "--workers", "2"),
    "resumed to other results": _words(
        lambda f, p: ["svm_grid", "--resume", str(f), "--results", str(p.folder / "new")]
    ),
    "by a link": _words(
        lambda f, p: [
            "svm_grid",
            "--resume",
            _link_to(f, p.folder / "link"),
        ]
    ),
    "with a slash and dots": _words(lambda f, p: ["svm_grid", "--resume", f"{f}/../run/."]),
    "a relative path": _words(lambda f, p: ["svm_grid", "--resume", "run"]),
    "resume run.json": _words(lambda f, p: ["svm_grid", "--resume", str(f / "run.json")]),
    "resume the parent": _words(lambda f, p: ["svm_grid", "--resume", str(f.parent)], "must"),
    "resume nothing": _words(lambda f, p: ["svm_grid", "--resume", ""], "must"),
    "resume root": _words(lambda f, p: ["svm_grid", "--resume", "/"], "must"),
    "start anew in it": _words(lambda f, p: [*GRID, "--results", str(f)], "must"),
    "start anew in a finished one": _words(
        lambda f, p: [*GRID, "--results", str(f)], "must", whole=True
    ),
    "report of a part": _words(lambda f, p: ["report", str(f)]),
    "predict of a part": _words(
        lambda f, p: ["svm_grid", "predict", str(f), str(p.write("t.csv", "a\n1\n"))], "must"
    ),
    "compare with itself": _words(lambda f, p: ["report", str(f), str(f)], whole=True),
    "compare into a folder": _words(
        lambda f, p: ["report", str(f), "--compare", str(p.folder)], "must", whole=True
    ),
    "pilot of a part": _words(lambda f, p: [*GRID, "--dry-run", "--pilot", str(f)]),
    "report, NaN in cells": _words(
        lambda f, p: _after(_better, f / "cv_results.parquet", p), whole=True
    ),
    "report, candidates of another": _words(
        lambda f, p: _after(_of_other, f / "candidates.parquet", p),
        "must",
        whole=True,
    ),
    "extend": _extend(lambda f, p: None),
    "extend better cells": _extend(lambda f, p: _better(f / "cv_results.parquet", p)),
    "extend a journal of another": _extend(lambda f, p: _of_other(f / "journal.jsonl", p)),
    "extend a bit": _extend(lambda f, p: _flip(f / "journal.jsonl", p)),
    "extend of other rows": _extend(lambda f, p: None, "--limit", "290"),
    "extend of another seed": _extend(lambda f, p: None, "--seed", "5"),
    "extend of other folds": _extend(lambda f, p: None, "--folds", "4"),
    "extend of another decision": _extend(lambda f, p: None, "--decision", "ovr"),
    "extend of another tol": _extend(lambda f, p: None, "--tol", "1.0"),
    "predict": _predict(lambda r: (r, H)),
    "predict, columns reversed": _predict(lambda r: ([row[::-1] for row in r], H[::-1])),
    "predict, columns more": _predict(lambda r: ([[*row, "x"] for row in r], [*H, "note"])),
    "predict without target": _predict(lambda r: ([row[:4] for row in r], H[:4])),
    "predict without a column": _predict(lambda r: ([row[1:] for row in r], H[1:]), "must"),
    "predict, column twice": _predict(
        lambda r: ([[row[1], *row] for row in r], ["length", *H]), "must"
    ),
    "predict, header of case": _predict(lambda r: (r, [h.upper() for h in H])),
    "predict without header": _predict(lambda r: (r[1:], r[0]), "must"),
    "predict, text among numbers": _predict(
        lambda r: ([["x", *row[1:]] if i == 5 else row for i, row in enumerate(r)], H), "must"
    ),
    "predict, new levels": _predict(lambda r: (column(r, 3, lambda c: "Rom"), H), same=False),
    "predict, decimal commas": _predict(
        lambda r: ([[f'"{row[0].replace(".", ",")}"', *row[1:]] for row in r], H)
    ),
    "predict, no rows": _predict(lambda r: ([], H), "may", same=False),
    "predict, infinite": _predict(lambda r: (column(r, 0, lambda c: "inf"), H), "must"),
    "predict, 1e300": _predict(lambda r: (column(r, 0, lambda c: "1e300"), H), "must"),
    "predict, labels unknown": _predict(lambda r: (column(r, 4, lambda c: "dog"), H)),
    "predict, all missing": _predict(lambda r: (column(r, 0, lambda c: ""), H), same=False),
    "predict, one row": _predict(lambda r: (r[:1], H), same=False),
    "predict, levels spaced": _predict(lambda r: (column(r, 3, lambda c: f" {c} "), H)),
    "predict, model of another": _predict(
        lambda r: (r, H), "must", lambda f, p: _of_other(f / "model.safetensors", p)
    ),
    "predict, a bit of the model": _predict(
        lambda r: (r, H), "must", lambda f, p: _flip(f / "model.safetensors", p)
    ),
    "predict, run.json edited": _predict(lambda r: (r, H), "may", lambda f, p: _classes(f)),
}


def _classes(folder: Path) -> None:
    """Class names swapped in run.json."""
    raw = json.loads((folder / "run.json").read_text())
    if classes := (raw.get("dataset") or {}).get("classes"):
        raw["dataset"]["classes"] = classes[::-1]
    (folder / "run.json").write_text(json.dumps(raw))
