"""The page of a run: one HTML file that needs no network and no other file."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from pipelines.report.candidate_table import (
    Cell,
    candidate_columns,
    candidate_rows,
    number_cell,
)
from pipelines.report.classification_figures import MOST_IMAGES, class_name
from pipelines.report.figures import draw_figures, worker_addresses
from pipelines.report.run_folder import ACCURACY, Candidate, RunFolder, read_run_folder
from pipelines.report.timeline import lanes, shown_seconds, worker_name
from pipelines.report.wording import count, duration, log10, moment, percent, significant

TITLES = {"svm_grid": "SVM grid search"}
MOST_WRONG_ROWS = 100
MOST_FAILED_CELLS = 50


@dataclass(frozen=True)
class Answer:
    """One of the large figures of the first screen."""

    label: str
    value: str
    note: str = ""


def write_page(folder: Path) -> Path:
    """Draw the figures of a run folder and write its page; return the page."""
    folder = Path(folder)
    run = read_run_folder(folder)
    figures = draw_figures(run)
    text = _template().render(
        title=_title(run),
        sentence=_sentence(run),
        state=_state(run),
        answers=_answers(run),
        has_best=run.best is not None,
        figures=figures,
        candidates=candidate_rows(run),
        candidate_columns=candidate_columns(run),
        scoring=run.scoring if run.scoring != ACCURACY else "",
        n_folds=_n_folds(run),
        wrong=_wrong_rows(run),
        wrong_note=_wrong_note(run),
        workers=_worker_rows(run),
        failures=_failures(run),
        command=_command(run),
        facts=_facts(run),
        options=_pairs(run.part("options")),
        versions=_pairs(run.part("versions")),
    )
    page = folder / "report.html"
    unfinished = folder / "report.html.part"
    unfinished.write_text(text, encoding="utf-8")
    os.replace(unfinished, page)
    return page


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html")


def _title(run: RunFolder) -> str:
    command = str(run.run.get("command", "run"))
    name = run.part("dataset").get("name")
    return TITLES.get(command, command) + (f" on {name}" if name else "")


def _n_folds(run: RunFolder) -> int | None:
    folds = run.part("options").get("folds")
    if isinstance(folds, int):
        return folds
    return None if run.cells.empty else int(run.cells["fold"].nunique())


def _sentence(run: RunFolder) -> str:
    """What was run, in one sentence."""
    dataset, cluster, options = run.part("dataset"), run.part("cluster"), run.part("options")
    n_C, n_gamma = options.get("n_c"), options.get("n_gamma")
    if not run.candidates.empty and not (isinstance(n_C, int) and isinstance(n_gamma, int)):
        n_C, n_gamma = run.candidates["C"].nunique(), run.candidates["gamma"].nunique()
    text = f"{n_C} C × {n_gamma} gamma" if n_C and n_gamma else "A search"
    if n_folds := _n_folds(run):
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


def _state(run: RunFolder) -> str:
    """Why the page is incomplete; empty for a finished run."""
    status = str(run.run.get("status", "finished"))
    if status == "finished":
        return ""
    n_cells = run.run.get("n_cells")
    if not isinstance(n_cells, int):
        options = run.part("options")
        sizes = [options.get(key) for key in ("n_c", "n_gamma", "folds")]
        known = [size for size in sizes if isinstance(size, int)]
        n_cells = math.prod(known) if len(known) == len(sizes) else None
    verb = {"running": "is still running", "stopped": "was stopped", "failed": "failed"}
    have = f"{len(run.cells)} of {n_cells}" if n_cells else f"{len(run.cells)}"
    reason = run.run.get("reason")
    return (
        f"This run {verb.get(status, 'is ' + status)}{f' ({reason})' if reason else ''}: "
        f"{have} cells are here. "
        "What is there is drawn; with --resume the command goes on from it."
    )


def _answers(run: RunFolder) -> list[Answer]:
    answers = []
    if (best := run.best) is not None:
        answers += [
            Answer("best C", significant(best.C), f"log₁₀ C = {log10(best.C)}"),
            Answer("best gamma", significant(best.gamma), f"log₁₀ gamma = {log10(best.gamma)}"),
            Answer(
                "cv error",
                percent(best.error_mean),
                f"± {percent(best.error_std)}, standard deviation over the folds"
                if math.isfinite(best.error_std)
                else "mean over the folds",
            ),
            *_score_answer(run, best),
        ]
    if (test_error := run.number("test_error")) is not None:
        n_wrong, n_test = run.run.get("n_test_errors"), run.part("dataset").get("n_test")
        note = f"{n_wrong} of {n_test} test points" if None not in (n_wrong, n_test) else ""
        answers.append(Answer("test error", percent(test_error), note))
    if (log_loss := run.number("test_log_loss")) is not None:
        error = run.number("test_calibration_error")
        note = f"calibration error {percent(error)}" if error is not None else ""
        answers.append(Answer("test log loss", f"{log_loss:.4f}", note))
    if (wall := run.number("wall_seconds")) is not None:
        n_cells = run.run.get("n_cells")
        note = f"for {count(n_cells, 'cell')}" if isinstance(n_cells, int) else ""
        answers.append(Answer("wall time", duration(wall), note))
    if (share := run.number("busy_share")) is not None:
        n_workers = run.part("cluster").get("n_workers")
        note = f"of {count(n_workers, 'worker')}" if isinstance(n_workers, int) else ""
        answers.append(Answer("busy share", f"{100 * share:.0f} %", note))
    return answers


def _score_answer(run: RunFolder, best: Candidate) -> list[Answer]:
    """The score that chose the best candidate, where it was not the error."""
    if run.scoring == ACCURACY or not math.isfinite(best.score_mean):
        return []
    note = f"± {best.score_std:.4f}; it chose the best candidate"
    return [Answer(f"cv {run.scoring}", f"{best.score_mean:.4f}", note)]


def _wrong(run: RunFolder) -> pd.DataFrame | None:
    if run.predictions is None:
        return None
    return run.predictions[run.predictions["true"] != run.predictions["predicted"]]


def _wrong_rows(run: RunFolder) -> list[list[Cell]]:
    """The wrong test points of a table, which has no images to show."""
    wrong = _wrong(run)
    if wrong is None or run.wrong_images is not None:
        return []
    return [
        [
            Cell(str(row["row"]), float(row["row"])),
            *(
                Cell(name := class_name(run.classes, int(row[which])), name)
                for which in ("true", "predicted")
            ),
        ]
        for row in wrong.head(MOST_WRONG_ROWS).to_dict("records")
    ]


def _wrong_note(run: RunFolder) -> str:
    wrong = _wrong(run)
    if wrong is None:
        return ""
    if wrong.empty:
        return "Every test point was classified right."
    most = MOST_WRONG_ROWS if run.wrong_images is None else MOST_IMAGES
    if len(wrong) > most:
        return (
            f"The first {most} of {len(wrong)} wrong test points; "
            "all of them are in test_predictions.parquet."
        )
    return f"{count(len(wrong), 'wrong test point')}."


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


def _failures(run: RunFolder) -> list[Failure]:
    """What went wrong and where, the most frequent first; the table of cells knows best."""
    if not run.cells.empty:
        wrong = run.cells[~run.cells["status"].isin(["ok"])]
        groups: Iterable[tuple[str, list[Any]]] = (
            (str(status), list(group[["C", "gamma", "fold"]].itertuples(index=False)))
            for status, group in wrong.groupby("status", dropna=False)
        )
        found = [
            Failure(status, len(cells), [_cell_name(*cell) for cell in cells[:MOST_FAILED_CELLS]])
            for status, cells in groups
        ]
    else:
        found = [
            Failure(
                str(failure.get("status", "failed")),
                int(failure.get("count", len(failure.get("cells", [])))),
                [
                    _cell_name(cell["C"], cell["gamma"], cell["fold"])
                    for cell in failure.get("cells", [])[:MOST_FAILED_CELLS]
                ],
            )
            for failure in run.run.get("failures") or []
        ]
    return sorted(found, key=lambda failure: (-failure.n_cells, failure.status))


def _cell_name(C: float, gamma: float, fold: float) -> str:
    return f"C = {significant(C)}, gamma = {significant(gamma)}, fold {fold:.0f}"


def _command(run: RunFolder) -> str:
    argv = run.run.get("argv")
    return shlex.join(map(str, argv)) if isinstance(argv, list) else ""


def _facts(run: RunFolder) -> list[tuple[str, str]]:
    """What a repetition must have in common with this run."""
    dataset, cluster = run.part("dataset"), run.part("cluster")
    scaling = dataset.get("scaling")
    if isinstance(scaling, Mapping):
        scaling = ", ".join(f"{key} {_plain(value)}" for key, value in scaling.items())
    devices: dict[str, int] = {}
    for worker in cluster.get("workers") or []:
        if isinstance(worker, dict):
            name = f"{worker.get('gpu') or 'CPU'} on {worker.get('host') or 'an unknown host'}"
            devices[name] = devices.get(name, 0) + 1
    facts = [
        ("Seed", run.run.get("seed")),
        ("Data set", dataset.get("name")),
        ("Data fingerprint", dataset.get("fingerprint")),
        ("Scaling", scaling),
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
