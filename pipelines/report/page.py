"""The page of a run: one HTML file that needs no network and no other file."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.report.candidate_table import Cell, number_cell
from pipelines.report.figures import draw_figures, worker_addresses
from pipelines.report.kind import Answer, Kind
from pipelines.report.kinds import KINDS, kind_of
from pipelines.report.templates import template
from pipelines.report.test_points import wrong_note, wrong_rows
from pipelines.report.timeline import lanes, shown_seconds, worker_name
from pipelines.report.wording import count, duration, moment, scaling_in_words
from pipelines.run_folder.reading import RunFolder, read_record

MOST_FAILED_CELLS = 50


def write_page(folder: Path) -> Path:
    """Draw the figures of a run folder and write its page; return the page."""
    folder = Path(folder)
    kind = kind_of(read_record(folder))
    run = kind.read(folder)
    text = template(kind.template).render(
        title=_title(kind, run),
        sentence=_sentence(kind, run),
        state=_state(kind, run),
        answers=kind.answers(run) + _answers(run),
        figures=draw_figures(run, kind.figures),
        n_folds=run.n_folds,
        wrong=wrong_rows(run),
        wrong_note=wrong_note(run),
        workers=_worker_rows(run),
        failures=_failures(kind, run),
        command=_command(run),
        facts=_facts(run),
        options=_pairs(run.part("options")),
        versions=_pairs(run.part("versions")),
        **kind.content(run),
    )
    page = folder / "report.html"
    unfinished = folder / "report.html.part"
    unfinished.write_text(text, encoding="utf-8")
    os.replace(unfinished, page)
    return page


def _title(kind: Kind, run: RunFolder) -> str:
    command, name = str(run.run.get("command", "run")), run.part("dataset").get("name")
    return (kind.title if command in KINDS else command) + (f" on {name}" if name else "")


def _sentence(kind: Kind, run: RunFolder) -> str:
    """What was run, in one sentence."""
    dataset, cluster, options = run.part("dataset"), run.part("cluster"), run.part("options")
    text = kind.size(run)
    if n_folds := run.n_folds:
        text += f", {n_folds}-fold cross-validation"
    if (n_train := dataset.get("n_train")) is not None:
        text += f" on {count(n_train, 'training point')}"
        details = []
        if (n_features := dataset.get("n_features")) is not None:
            details.append(count(n_features, "feature"))
        if (n_classes := dataset.get("n_classes")) is not None:
            details.append(count(n_classes, "class", "classes"))
        text += f" ({', '.join(details)})" if details else ""
    if n_workers := cluster.get("n_workers"):
        text += f", {count(n_workers, 'worker')} ({cluster.get('kind', 'cluster')})"
    if solver := run.run.get("solver") or options.get("solver"):
        text += f", solver {solver}"
    if started := run.run.get("started"):
        text += f"; started {moment(started)}"
    return text + "."


def _state(kind: Kind, run: RunFolder) -> str:
    """Why the page is incomplete; empty for a finished run."""
    status = str(run.run.get("status", "finished"))
    if status == "finished":
        return ""
    n_cells = run.run.get("n_cells")
    if not isinstance(n_cells, int):
        n_cells = _n_cells(kind, run)
    verb = {"running": "is still running", "stopped": "was stopped", "failed": "failed"}
    have = f"{len(run.cells)} of {n_cells}" if n_cells else f"{len(run.cells)}"
    reason = run.run.get("reason")
    return (
        f"This run {verb.get(status, 'is ' + status)}{f' ({reason})' if reason else ''}: "
        f"{have} cells are here. "
        "What is there is drawn; with --resume the command goes on from it."
    )


def _n_cells(kind: Kind, run: RunFolder) -> int | None:
    """Cells of the whole run; None where the options do not say."""
    sizes = [run.part("options").get(key) for key in kind.sizes]
    known = [size for size in sizes if isinstance(size, int)]
    return math.prod(known) if len(known) == len(sizes) else None


def _answers(run: RunFolder) -> list[Answer]:
    """The large figures that every run has."""
    answers = []
    if (wall := run.number("wall_seconds")) is not None:
        n_cells = run.run.get("n_cells")
        note = f"for {count(n_cells, 'cell')}" if isinstance(n_cells, int) else ""
        answers.append(Answer("wall time", duration(wall), note))
    if (share := run.number("busy_share")) is not None:
        n_workers = run.part("cluster").get("n_workers")
        note = f"of {count(n_workers, 'worker')}" if isinstance(n_workers, int) else ""
        answers.append(Answer("busy share", f"{100 * share:.0f} %", note))
    return answers


def _worker_rows(run: RunFolder) -> list[list[Cell]]:
    """Worker, device, units, busy time and busy share."""
    devices = {
        str(worker.get("address")): (str(worker.get("host") or ""), str(worker.get("gpu") or "CPU"))
        for worker in run.part("cluster").get("workers") or []
        if isinstance(worker, dict)
    }
    total = shown_seconds(run.units)
    rows = []
    for lane in lanes(run.units, worker_addresses(run)):
        host, device = devices.get(lane.worker, ("", ""))
        share = lane.busy_seconds / total if total else math.nan
        rows.append(
            [
                Cell(worker_name(lane.worker), lane.worker),
                Cell(host, host),
                Cell(device, device),
                Cell(str(len(lane.units)), float(len(lane.units))),
                Cell(duration(lane.busy_seconds), lane.busy_seconds),
                number_cell(share, f"{100 * share:.0f} %"),
            ]
        )
    return rows


@dataclass(frozen=True)
class Failure:
    """The cells that share a status other than ``ok``."""

    status: str
    n_cells: int
    cells: list[str]


def _failures(kind: Kind, run: RunFolder) -> list[Failure]:
    """What went wrong and where, the most frequent first; the table of cells knows best."""
    if not run.cells.empty:
        wrong = run.cells[~run.cells["status"].isin(["ok"])]
        groups: Iterable[tuple[str, list[Any]]] = (
            (str(status), list(group[list(kind.place)].itertuples(index=False)))
            for status, group in wrong.groupby("status", dropna=False)
        )
        found = [
            Failure(
                status, len(cells), [kind.cell_name(*cell) for cell in cells[:MOST_FAILED_CELLS]]
            )
            for status, cells in groups
        ]
    else:
        found = [
            Failure(
                str(failure.get("status", "failed")),
                int(failure.get("count", len(failure.get("cells", [])))),
                [
                    kind.cell_name(*(cell[name] for name in kind.place))
                    for cell in failure.get("cells", [])[:MOST_FAILED_CELLS]
                ],
            )
            for failure in run.run.get("failures") or []
        ]
    return sorted(found, key=lambda failure: (-failure.n_cells, failure.status))


def _command(run: RunFolder) -> str:
    argv = run.run.get("argv")
    return shlex.join(map(str, argv)) if isinstance(argv, list) else ""


def _facts(run: RunFolder) -> list[tuple[str, str]]:
    """What a repetition must have in common with this run."""
    dataset, cluster = run.part("dataset"), run.part("cluster")
    devices: dict[str, int] = {}
    for worker in cluster.get("workers") or []:
        if isinstance(worker, dict):
            name = f"{worker.get('gpu') or 'CPU'} on {worker.get('host') or 'an unknown host'}"
            devices[name] = devices.get(name, 0) + 1
    facts = [
        ("Seed", run.run.get("seed")),
        ("Data set", dataset.get("name")),
        ("Data fingerprint", dataset.get("fingerprint")),
        ("Scaling", scaling_in_words(dataset.get("scaling"))),
        ("Test points", dataset.get("n_test")),
        ("Devices", "; ".join(f"{number} × {name}" for name, number in devices.items()) or None),
        ("Machine", ", ".join(f"{key} {value}" for key, value in run.part("machine").items())),
        ("Commit", run.run.get("commit")),
        ("Started", run.run.get("started") and moment(run.run["started"])),
        ("Finished", run.run.get("finished") and moment(run.run["finished"])),
    ]
    return [(name, str(value)) for name, value in facts if value not in (None, "")]


def _pairs(section: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(str(key), _plain(value)) for key, value in section.items()]


def _plain(value: object) -> str:
    if isinstance(value, list | tuple):
        return " ".join(map(_plain, value))
    return "–" if value is None else str(value)
