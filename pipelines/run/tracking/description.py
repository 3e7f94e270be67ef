"""What loggers get to know of a run, all of it from ``run.json``, the journal and the folder."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from statistics import fmean
from typing import Any

from pipelines.errors import InputError
from pipelines.run.groups import RunOptions
from pipelines.run.tracking.logger import CandidateLog, Parameters, RunStart
from pipelines.run.tracking.options import TrackingOptions
from pipelines.run_folder import names
from pipelines.run_folder.rows import Metric, Row

# Options of the session, or of this machine, rather than of the experiment.
LEFT_OUT = {"results", "resume", "accept_changed", "dry_run", "quiet", "data_dir", "dashboard"}
LEFT_OUT |= {field.name for field in fields(TrackingOptions)}
# Numbers of run.json that are no part of the answer.
NO_METRICS = {"seed", "session_began", "ratio", "n_splits", "stages"}
OF_BEST = {
    "score_mean": "best_cv_score",
    "score_std": "best_cv_score_std",
    "error_mean": "best_cv_error",
    "error_std": "best_cv_error_std",
}
OF_BASELINE = {
    "score_mean": "baseline_cv_score",
    "test_error": "baseline_test_error",
    "test_metric": "baseline_test_metric",
}
OF_NESTED = {"score_mean": "nested_cv_score", "score_std": "nested_cv_score_std"}
PASSWORD = re.compile(r"(?<=://)[^/@\s]+@")


def start_of(folder: Path, record: Mapping[str, Any], options_class: type[RunOptions]) -> RunStart:
    """What is known of a run once ``run.json`` has its options, data and cluster.

    Parameters
    ----------
    folder : Path
    record : mapping
        ``run.json``.
    options_class : type
        The dataclass of the command's options.
    """
    options, dataset, cluster = record["options"], record["dataset"], record["cluster"]
    parameters: dict[str, Any] = {}
    for field in fields(options_class):
        value = options.get(field.name, field.default)
        default = list(field.default) if isinstance(field.default, tuple) else field.default
        is_default = value in (default, field.default)
        if field.name in LEFT_OUT or value in (None, (), []):
            continue
        if not is_default or (field.metadata["changes_results"] and value is not False):
            parameters[field.name] = value
    parameters["seed"] = record["seed"]
    if record.get("solver"):
        parameters["solver"] = record["solver"]
    for name in ("name", "fingerprint", "task", "n_train", "n_test", "n_features", "n_classes"):
        if dataset.get(name) is not None:
            parameters[f"data.{name}"] = dataset[name]
    parameters |= {f"cluster.{name}": cluster[name] for name in ("kind", "n_workers")}
    parameters |= {f"version.{name}": text for name, text in record.get("versions", {}).items()}
    tags = {"command": record["command"], "folder": str(folder.absolute())}
    tags |= {name: str(record[name]) for name in ("commit", "fingerprint") if record.get(name)}
    if host := record.get("machine", {}).get("host"):
        tags["host"] = str(host)
    data = str(dataset.get("name") or ""), str(dataset.get("fingerprint") or "")
    command = record["command"].replace("_", "-")
    return RunStart(
        folder.absolute().name, command, folder, logged_parameters(parameters), tags, data
    )


def logged_parameters(parameters: Mapping[str, Any]) -> dict[str, bool | int | float | str]:
    """Parameters as trackers take them: a list as it is typed, an address without its user."""
    return {
        name: value if isinstance(value, bool | int | float) else PASSWORD.sub("", _typed(value))
        for name, value in parameters.items()
    }


def _typed(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def answer_of(record: Mapping[str, Any]) -> tuple[dict[str, float], Parameters]:
    """The metrics of ``run.json``, and the parameters of its best candidate; none before the end.

    Metrics are its numbers under their own names. Numbers of nested entries are ``best_cv_score``,
    ``nested_cv_score``, ``baseline_test_error``, ``test_SCORER`` and so on.
    """
    numbers = {name: value for name, value in record.items() if name not in NO_METRICS}
    if "vote_test_error" in numbers:  # of an ensemble, under the name that other commands have
        numbers["test_error"] = numbers["vote_test_error"]
    best = record.get("best") or {}
    for entries, prefixed in (
        (best, OF_BEST),
        (record.get("nested") or {}, OF_NESTED),
        (record.get("baseline") or {}, OF_BASELINE),
    ):
        numbers |= {name: entries.get(entry) for entry, name in prefixed.items()}
    scores = record.get("test_scores") or {}
    numbers |= {f"test_{name}": score for name, score in scores.items()}
    metrics = {name: float(value) for name, value in numbers.items() if _is_finite(value)}
    best_values = {name: value for name, value in best.items() if name not in OF_BEST}
    best_values |= best_values.pop("parameters", {})
    best_parameters = {
        name: value for name, value in best_values.items() if isinstance(value, int | float | str)
    }
    return metrics, {
        f"best_{name}": value for name, value in logged_parameters(best_parameters).items()
    }


def _is_finite(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value)


def artifacts_of(folder: Path, model_files: Iterable[str]) -> dict[str, list[Path]]:
    """The files of a run that a tracker keeps, by the folder in which they belong."""
    page = [folder / name for name in (names.REPORT, names.RECORD)]
    figures = sorted([*folder.glob("*.svg"), *folder.glob("*.png")])
    model = sorted({path for pattern in model_files for path in folder.glob(pattern)})
    artifacts = {"": [path for path in page if path.is_file()], "figures": figures, "model": model}
    return {name: paths for name, paths in artifacts.items() if paths}


def conclusion_of(folder: Path) -> str:
    """The answer in a sentence, as the page says it; empty where there is none."""
    from pipelines.report.page import read_run

    with suppress(InputError):
        return str(read_run(folder).conclusion() or "")
    return ""


def record_metrics(
    row: type[Row], records: Iterable[Mapping[str, Any]], number: int
) -> Iterator[Metric]:
    """The metrics of journal records; the first row of these has the given number."""
    for record in records:
        ended = record["started"] + record["seconds"]
        for entries in record["rows"]:
            for metric in row.metrics(entries, number):
                if math.isfinite(metric.value):
                    yield metric._replace(time=ended)
            number += 1


def scored_candidates(row: type[Row], records: Sequence[Mapping[str, Any]]) -> list[CandidateLog]:
    """The candidates of a search with their scores by fold, in the order of their first fits."""
    metrics, parameters = dict[str, list[Metric]](), dict[str, dict[str, Any]]()
    failed = set[str]()
    for record in records:
        for entries in record["rows"]:
            if (candidate := row.candidate_of(entries)) is None:
                continue
            name, parameters[name] = candidate
            ended = record["started"] + record["seconds"]
            if str(entries.get("status", "")).startswith(names.FAILED):
                failed.add(name)
            metrics.setdefault(name, []).extend(
                metric._replace(time=ended) for metric in row.metrics(entries, entries["fold"])
            )
    candidates = []
    for name, of_folds in metrics.items():
        by_name: dict[str, dict[int, float]] = {}
        for metric in of_folds:  # the last of a fit that was repeated
            by_name.setdefault(metric.name, {})[metric.step] = metric.value
        means = {
            f"cv_{metric.removeprefix('fold_')}": fmean(values.values())
            for metric, values in by_name.items()
        }
        settings = {key: value for key, value in parameters[name].items() if value is not None}
        log = CandidateLog(
            name, logged_parameters(settings), of_folds, {} if name in failed else means
        )
        candidates.append(log)
    return candidates
