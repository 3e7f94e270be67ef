"""Damaged run folders: one line that says what is damaged, or a task that is done again.

Report, comparison, predict and the opening of a run to resume are each given the kept runs
with one thing wrong.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from pipelines.commands import job_of
from pipelines.errors import InputError
from pipelines.report import write_report
from pipelines.report.comparison import write_comparison
from pipelines.run.groups import options_of_resumed_run
from pipelines.run_folder.folder import RunFolder
from pipelines.run_folder.journal import Journal
from pipelines.run_folder.names import JOURNAL
from pipelines.run_folder.ranking import ranked_candidates
from pipelines.svm_search.record import CANDIDATE, SvmRow

KEPT = Path(__file__).with_name("kept")
WRONG: list[Any] = [None, True, -1, 2.5, 1e300, float("nan"), "text", [], ["text"], [[1]], {}]
Change = Callable[[Path], None]


def copy_of(name, tmp_path):
    return Path(shutil.copytree(KEPT / name, tmp_path / name))


def draw(folder):
    write_report(folder)


def compare(folder):
    write_comparison([folder, KEPT / "svm_grid-finished"], folder / "page.html")


def resume(folder):
    """What is read before a resumed run does anything."""
    command = folder.name.split("-")[0]
    job = job_of(command)
    run = RunFolder.open(folder, command, record_class=job.record)
    options_of_resumed_run(job.options_class, run.record["options"], {}, folder)
    with run.journal(job.row) as journal:
        run.start_clock(journal.records)


def is_held(read, folder):
    """Whether a folder is read, or refused in one line that says where it is."""
    try:
        read(folder)
    except InputError as error:
        message = str(error)
        return "\n" not in message and len(message) < 1000 and str(folder) in message
    return True


def places(value, path=()):
    """Every place in a JSON value; of a list its first element alone."""
    if isinstance(value, dict):
        inside = list(value.items())
    else:
        inside = list(enumerate(value[:1])) if isinstance(value, list) else []
    return [path, *(key_path for key, child in inside for key_path in places(child, (*path, key)))]


def replaced(value, key_path, new):
    if not key_path:
        return new
    copy = value.copy()
    copy[key_path[0]] = replaced(value[key_path[0]], key_path[1:], new)
    return copy


@pytest.mark.slow
@pytest.mark.parametrize("read", [resume, draw])
@pytest.mark.parametrize("name", ["svm_grid-finished", "nn_bagging-finished"])
def test_any_fact_of_any_type_is_read_or_refused(name, read, tmp_path, monkeypatch):
    # What is drawn does not depend on the record alone; images are many seconds.
    monkeypatch.setattr("pipelines.report.page.draw_figures", lambda run, figures: {})
    folder = copy_of(name, tmp_path)
    record = json.loads((folder / "run.json").read_text())
    for path in folder.glob("*.*"):
        if path.name != "run.json":  # the record alone is what changes
            path.unlink()
    for number, key_path in enumerate(places(record)):
        for wrong in WRONG[number % 2 :: 2]:
            (folder / "run.json").write_text(json.dumps(replaced(record, key_path, wrong)))
            assert is_held(read, folder), (key_path, wrong)


@pytest.mark.parametrize("name", ["svm_grid-interrupted", "nn_bagging-interrupted"])
def test_a_damaged_line_costs_its_own_task(name, tmp_path):
    folder = copy_of(name, tmp_path)
    lines = (folder / "journal.jsonl").read_text().splitlines()
    first = json.loads(lines[0])
    for key_path in places(first):
        for wrong in WRONG:
            damaged = json.dumps(replaced(first, key_path, wrong))
            (folder / "journal.jsonl").write_text("\n".join([damaged, *lines[1:]]) + "\n")
            command = name.split("-")[0]
            row = job_of(command).row
            with RunFolder.open(folder, command).journal(row) as journal:
                assert [record["task"] for record in journal.records][-len(lines) + 1 :] == [
                    json.loads(line)["task"] for line in lines[1:]
                ]
    for key in first["rows"][0]:
        row = {name: value for name, value in first["rows"][0].items() if name != key}
        damaged = json.dumps(first | {"rows": [row]})
        (folder / "journal.jsonl").write_text("\n".join([damaged, *lines[1:]]) + "\n")
        draw_tables(folder)


def draw_tables(folder):
    from pipelines.report.page import read_run

    read_run(folder)


def change_table(name, change):
    def damage(folder):
        change(pd.read_parquet(folder / name)).to_parquet(folder / name)

    return damage


def change_array(file, name, content):
    def damage(folder):
        with zipfile.ZipFile(folder / file) as archive:
            contents = {member: archive.read(member) for member in archive.namelist()}
        contents[f"{name}.npy"] = content
        with zipfile.ZipFile(folder / file, "w", zipfile.ZIP_DEFLATED) as archive:
            for member, written in contents.items():
                archive.writestr(member, written)

    return damage


def claims_shape(*shape):
    """The head of an array that is larger than any memory."""
    file = io.BytesIO()
    head = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, head)
    return file.getvalue() + bytes(64)


def write(name, content):
    return lambda folder: (folder / name).write_bytes(content) and None


def cut(name):
    return lambda folder: os.truncate(folder / name, (folder / name).stat().st_size // 2)


def cells(**columns):
    return change_table("cv_results.parquet", lambda table: table.assign(**columns))


SVM, NN = "svm_grid-finished", "nn_bagging-finished"
images = partial(change_array, "test_errors.npz")
explained = partial(change_array, "explained.npz")
DEEP = b"[" * 100_000 + b"]" * 100_000
DAMAGED: dict[str, tuple[str, Change]] = {
    "deep run.json": (SVM, write("run.json", DEEP)),
    "deep options": (SVM, write("run.json", b'{"command": "x", "options": {"a": ' + DEEP + b"}}")),
    "cut run.json": (SVM, cut("run.json")),
    "empty run.json": (SVM, write("run.json", b"")),
    "foreign bytes": (SVM, write("run.json", b"\xff\xfe\x00")),
    "cut cells": (SVM, cut("cv_results.parquet")),
    "cut candidates": (NN, cut("candidates.parquet")),
    "cut predictions": (NN, cut("test_predictions.parquet")),
    "cut sizes": (NN, cut("ensemble_sizes.parquet")),
    "cut explained": (NN, cut("explained.npz")),
    "cut images": (SVM, cut("test_errors.npz")),
    "C is missing": (SVM, cells(C=np.nan)),
    "C is negative": (SVM, cells(C=-1.0)),
    "C is text": (SVM, cells(C="1")),
    "infinite error": (SVM, cells(error=np.inf)),
    "status is a number": (SVM, cells(status=3)),
    "lists in a column": (SVM, cells(C=[[1]] * 27)),
    "no status": (SVM, change_table("cv_results.parquet", lambda t: t.drop(columns="status"))),
    "huge shape": (SVM, images("X", claims_shape(2**40, 2**20))),
    "negative shape": (SVM, images("X", claims_shape(-1, 8))),
    "no array": (NN, explained("vote", b"no array")),
    "huge votes": (NN, explained("probabilities", claims_shape(2**62))),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_file_is_one_line(case, tmp_path):
    name, damage = DAMAGED[case]
    folder = copy_of(name, tmp_path)
    damage(folder)
    with pytest.raises(InputError):
        draw(folder)
    for read in (draw, compare, resume):
        assert is_held(read, folder)


def test_an_interrupted_ensemble_is_compared(tmp_path):
    runs = [copy_of("nn_bagging-interrupted", tmp_path), copy_of("nn_bagging-finished", tmp_path)]
    assert "2 runs compared" in write_comparison(runs, tmp_path / "page.html").read_text()


def test_records_of_another_run_are_not_used(tmp_path):
    folders, kept = [], (KEPT / SVM / "journal.jsonl").read_text()
    for seed in (0, 1):
        folder = RunFolder.create(str(tmp_path / str(seed)), "svm_grid")
        with folder.journal(SvmRow) as journal:
            folder.sign(journal, data="digest", options={"seed": seed})
            folder.update(options={"seed": seed})
            rows = json.loads(
                (KEPT / "svm_grid-finished/journal.jsonl").read_text().splitlines()[0]
            )
            journal.append(rows | {"task": f"of {seed}"})
        folders.append(folder)
    first, other = folders
    mixed = (first.path / JOURNAL).read_bytes() + (other.path / JOURNAL).read_bytes()
    (first.path / JOURNAL).write_bytes(mixed + kept.encode())
    with RunFolder.open(first.path, "svm_grid").journal(SvmRow) as journal:
        assert [record["task"] for record in journal.records] == ["of 0"]
        assert journal.n_foreign == 1 + len(kept.splitlines())
        journal.append(rows | {"task": "later"})
    with Journal(first.path / JOURNAL, SvmRow, first.record["fingerprint"], write=False) as journal:
        assert [record["task"] for record in journal.records] == ["of 0", "later"]


def test_a_row_without_a_score_says_that_its_fit_failed():
    first = json.loads((KEPT / "svm_grid-finished" / "journal.jsonl").read_text().splitlines()[0])
    row = first["rows"][0]
    assert SvmRow.model_validate(row).score is not None
    empty = row | {"score": None, "error": None, "n_errors": None}
    assert SvmRow.model_validate(empty | {"status": "failed: no memory"}).score is None
    with pytest.raises(ValidationError, match="a fit that did not fail has a score"):
        SvmRow.model_validate(empty)


def test_an_older_run_goes_on_without_a_fingerprint(tmp_path):
    folder = RunFolder.open(copy_of("svm_grid-interrupted", tmp_path), "svm_grid")
    with folder.journal(SvmRow) as journal:
        assert len(journal.records) == 2
        folder.sign(journal, data="digest", options={})
        assert journal.fingerprint is None
    with Journal(folder.path / JOURNAL, SvmRow) as journal:
        assert journal.n_foreign == 0


def test_one_rule_ranks_candidates():
    cells = pd.DataFrame(
        {
            "C": [10, 10, 1, 1, 1, 1, 5, 5],
            "gamma": [0.1, 0.1, 0.2, 0.2, 0.1, 0.1, 0.1, 0.1],
            "error": [0.1, 0.3, 0.3, 0.1, 0.2, 0.2, np.nan, 0.0],
        }
    )
    table = ranked_candidates(cells.assign(score=1 - cells["error"]), CANDIDATE, 2)
    # Three are tied but for rounding: the smaller C, then the smaller gamma. One lacks a fold.
    assert table[["C", "gamma"]].to_numpy().tolist() == [[1, 0.1], [1, 0.2], [10, 0.1], [5, 0.1]]
    assert np.isnan(table["score_mean"].iloc[-1])
    assert table["rank"].tolist() == [1, 2, 3, 4]


def test_a_damaged_record_names_the_field_that_is_wrong(tmp_path):
    folder = copy_of("svm_grid-finished", tmp_path)
    record = json.loads((folder / "run.json").read_text())
    record["cluster"]["n_workers"] = "two"
    (folder / "run.json").write_text(json.dumps(record))
    with pytest.raises(InputError, match=r"damaged \(cluster\.n_workers: Input should be a valid"):
        RunFolder.open(folder, "svm_grid")
