"""The answer of a run, from its ``run.json`` alone: its numbers by name, and summary lines."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from pipelines.run_folder.measures import Measure, measure_of

# Numbers of ``run.json`` that are no part of the answer: times, the seed, counts of stages.
_NO_ANSWER = frozenset(
    {"session_began", "wall_seconds", "busy_share", "compile_seconds", "seed", "ratio", "stages"}
)


def metrics_of(metadata: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a run's answer by name; see ``Run.metrics``."""
    best, baseline = metadata.get("best") or {}, metadata.get("baseline") or {}
    measure = measure_of(scoring_of(metadata))
    metrics = dict[str, Any]()
    if "score_mean" in best:
        metrics |= _mean_and_spread("cv", measure, best["score_mean"], best.get("score_std"))
    if "error_mean" in best:
        metrics |= {"cv_error": best["error_mean"], "cv_error_std": best.get("error_std")}
    if (nested := metadata.get("nested")) is not None:
        metrics |= _mean_and_spread("nested", measure, nested["score_mean"], nested["score_std"])
    for scoring, score in (metadata.get("test_scores") or {}).items():
        if score is not None:
            metrics |= _mean_and_spread("test", measure_of(scoring), score, None)
    metric = "_".join(str(metadata.get("metric") or "metric").split())
    for name, value in metadata.items():
        if name not in _NO_ANSWER:
            metrics[name.replace("test_metric", f"test_{metric}")] = value
    if (score := baseline.get("score_mean")) is not None:
        metrics |= _mean_and_spread("baseline_cv", measure_of(baseline["scoring"]), score, None)
    metrics["baseline_test_error"] = baseline.get("test_error")
    metrics[f"baseline_test_{metric}"] = baseline.get("test_metric")
    return {name: value for name, value in metrics.items() if _is_number(value)}


def scoring_of(metadata: Mapping[str, Any]) -> str | None:
    """The scorer that chose the best candidate, the first of several; None if a run names none."""
    scoring = metadata.get("scoring") or metadata.get("options", {}).get("scoring")
    return (scoring[0] if scoring else None) if isinstance(scoring, list) else scoring


def answer_lines(metadata: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Pairs of a label and a text: the command, its data, and the answer."""
    status, command = metadata.get("status") or "finished", str(metadata["command"])
    seconds = metadata.get("wall_seconds")
    duration = f" in {seconds:,.1f} s" if _is_number(seconds) else ""
    yield "command", f"{command.replace('_', '-')}, {status}{duration}"
    data = metadata.get("dataset") or {}
    sizes = [
        f"{data[key]:,} {what}"
        for key, what in (("n_train", "training rows"), ("n_test", "test rows"))
        if data.get(key)
    ]
    if name := data.get("name"):
        yield "data", ", ".join([str(name), *sizes])
    measure, best = measure_of(scoring_of(metadata)), metadata.get("best") or {}
    no_parameters = ("algorithm", "candidate", "parameters", "n_splits", "share")
    parameters = best.get("parameters") or {
        name: value
        for name, value in best.items()
        if not name.startswith(("error_", "score_")) and name not in no_parameters
    }
    words = [f"{name}={_short(value)}" for name, value in parameters.items()]
    words = [str(best["algorithm"]), *words] if "algorithm" in best else words
    if words:
        yield "best", ", ".join(words)
    if _is_number(best.get("score_mean")):
        text = measure.mean_and_spread(best["score_mean"], best.get("score_std"))
        yield f"cv {measure.name}", text
    elif _is_number(best.get("error_mean")):
        errors = measure_of(None)
        yield "cv error", errors.mean_and_spread(1 - best["error_mean"], best.get("error_std"))
    test_numbers = {
        name.removeprefix("test_").replace("_", " "): value
        for name, value in metrics_of(metadata).items()
        if name.startswith("test_")
    }
    if (vote := metadata.get("vote_test_error")) is not None:
        test_numbers["error"] = vote
    for name, value in test_numbers.items():
        is_error = name == "error"
        yield f"test {name}", f"{100 * value:.2f} %" if is_error else f"{value:.4g}"
    graph = {name: metadata.get(name) for name in ("n_nodes", "n_edges", "bound")}
    for name, number in graph.items():
        if _is_number(number):
            text = f"{number:,}" if name != "bound" else f"{number:.2g} (L1)"
            yield name.removeprefix("n_"), text
    for remark in metadata.get("remarks") or ():
        yield "warning", str(remark)


def _mean_and_spread(
    prefix: str, measure: Measure, mean: float, std: float | None
) -> dict[str, float | None]:
    name = f"{prefix}_{measure.name.replace(' ', '_')}"
    return {name: measure.of(mean)} | ({} if std is None else {f"{name}_std": std})


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value)


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
