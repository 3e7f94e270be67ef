"""A hundred fits on shifted, scaled and wide data: ``python -m benchmarks.shifted_fits``.

Offsets up to 1e9, columns up to 1e6 times as wide as others, 3,200 rows of 2,000 features.  Each
model is fitted twice, as the search fits it on a split and as an estimator on the same rows, and
compared row by row with LIBSVM's converged answer: a kernel made from differences in double
precision, ``tol=1e-8``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import add_count, add_results, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from pipelines.run.options import OneLineParser

COMMAND = "benchmarks.shifted_fits"
TOL, CONVERGED_TOL = 1e-3, 1e-8


@dataclass(frozen=True)
class Fit:
    """A generated data set, what is done to its columns, and a model.

    kind : "ovo" or "ovr" of three classes, "two" classes, or "regression"
    offset : added to every column
    scale : every column is multiplied by it, and gamma with it, or ``one`` column of 0 and
        ``scale`` is put beside the others
    gamma : in units of 1 / n_features of standardised columns
    """

    seed: int
    kind: str
    offset: float = 0.0
    scale: float = 1.0
    one: bool = False
    rows: int = 240
    features: int = 8
    C: float = 10.0
    gamma: float = 1.0


def fits() -> list[Fit]:
    """Return the hundred, those of many rows last."""
    kinds, seed = ("two", "ovo", "ovr", "regression"), iter(range(1000))
    shifted = [
        Fit(next(seed), kind, offset, scale, C=C, gamma=gamma)
        for (offset, scale), kind, (C, gamma) in product(
            ((1e3, 1.0), (1e6, 1.0), (1e9, 1.0), (1e9, 1e6), (1e7, 1e6), (1.0, 1e-6)),
            kinds,
            ((1.0, 0.1), (100.0, 1.0)),
        )
    ]
    beside = [
        Fit(next(seed), kind, offset, scale, True, C=C, gamma=gamma)
        for offset, scale, kind, (C, gamma) in product(
            (0.0, 1e6), (2e4, 1e6), kinds, ((1.0, 0.3), (100.0, 1.0))
        )
    ]
    far = [Fit(next(seed), kind, 1e7, 1e6, gamma=gamma) for kind in kinds for gamma in (1e2, 1e4)]
    wide = [
        Fit(next(seed), kind, offset, scale, scale > 1, 3200, 2000, C=C)
        for kind, offset, scale, C in (
            ("two", 0.0, 1.0, 1.0),
            ("two", 1e6, 1.0, 10.0),
            ("two", 0.0, 2e4, 1.0),
            ("two", 0.0, 1e6, 10.0),
            ("ovo", 0.0, 2e4, 10.0),
            ("ovo", 1e6, 2e4, 1.0),
            ("ovr", 0.0, 2e4, 1.0),
            ("ovr", 1e6, 1e6, 1.0),
            ("regression", 0.0, 2e4, 1.0),
            ("regression", 1e6, 1e6, 10.0),
            ("two", 1e9, 1.0, 1.0),
            ("ovo", 1e9, 1.0, 1.0),
        )
    ]
    return [*shifted, *beside, *far, *wide]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    add_count(parser, "--fits", len(fits()), "the first of the list")
    add_results(parser)
    return parser


def _run(options: argparse.Namespace) -> None:
    lines = []
    for fit in fits()[: options.fits]:
        lines.append(compare(fit))
        print(lines[-1], flush=True)
    record = stamped("shifted_fits", lines=lines)
    text = page(record)
    print(f"\n{text}\nkept in {keep(Path(options.results), 'shifted-fits', record, text)}")


def data_of(fit: Fit) -> tuple[np.ndarray, np.ndarray, float]:
    """Return rows, targets and gamma."""
    generator = np.random.default_rng(fit.seed)
    X = generator.normal(size=(fit.rows, fit.features))
    signal = X[:, :4].sum(axis=1) + np.abs(X[:, 4]) + generator.normal(size=fit.rows)
    levels = {"two": [0.5], "ovo": [0.3, 0.7], "ovr": [0.3, 0.7]}.get(fit.kind)
    y = signal if levels is None else np.searchsorted(np.quantile(signal, levels), signal)
    gamma = fit.gamma / fit.features
    if fit.one:
        X[:, -1] = fit.scale * (generator.random(fit.rows) < 0.5)
        return X + fit.offset, y, gamma
    return X * fit.scale + fit.offset, y, gamma / fit.scale**2


def compare(fit: Fit) -> dict[str, Any]:
    """Return a fit with the number of its rows that differ, in all and beyond the tolerance."""
    X, y, gamma = data_of(fit)
    train, test = np.arange(fit.rows)[::2], np.arange(fit.rows)[1::2]
    searched = _searched(fit, X, y, gamma, train, test)
    refitted = _model(fit, gamma).fit(X[train], y[train]).predict(X[test])
    converged, near = _libsvm(fit, X, y, gamma, train, test)
    pairs = {
        "search_refit": (searched, refitted),
        "search_libsvm": (searched, converged),
        "refit_libsvm": (refitted, converged),
    }
    counts = {}
    for name, (first, second) in pairs.items():
        differ = first != second if fit.kind != "regression" else np.abs(first - second) > 2 * TOL
        counts[name] = [int(differ.sum()), int((differ & ~near).sum())]
    return {**asdict(fit), "asked": len(test), **counts}


def _model(fit: Fit, gamma: float) -> Any:
    from pipelines import PathSVC, PathSVR

    if fit.kind == "regression":
        return PathSVR(C=fit.C, gamma=gamma, tol=TOL, epsilon=0.1)
    decision = "ovr" if fit.kind == "ovr" else "ovo"
    return PathSVC(C=fit.C, gamma=gamma, tol=TOL, decision=decision)


def _searched(
    fit: Fit, X: np.ndarray, y: np.ndarray, gamma: float, train: np.ndarray, test: np.ndarray
) -> np.ndarray:
    """Return what a search of one candidate on one split predicts of the rows left out."""
    from sklearn.metrics import make_scorer

    from pipelines import GridSearch

    predictions = list[np.ndarray]()

    def note(_: np.ndarray, predicted: np.ndarray) -> float:
        predictions.append(np.asarray(predicted).copy())
        return 0.0

    model, scoring = _model(fit, gamma), make_scorer(note)
    search = GridSearch(model, {"C": [fit.C]}, cv=[(train, test)], scoring=scoring, refit=False)
    search.fit(X, y)
    return predictions[-1]


def _kernels(
    X: np.ndarray, gamma: float, train: np.ndarray, test: np.ndarray
) -> Iterator[np.ndarray]:
    """Yield the kernel among rows to train on, and that of the others with them."""
    from scipy.spatial.distance import cdist

    for rows in (train, test):
        yield np.exp(-gamma * cdist(X[rows], X[train], "sqeuclidean"))


def _libsvm(
    fit: Fit, X: np.ndarray, y: np.ndarray, gamma: float, train: np.ndarray, test: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return LIBSVM's predictions, and which are of decision values within the tolerance of 0."""
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.svm import SVC, SVR

    among, test_kernel = _kernels(X, gamma, train, test)
    form = {"kernel": "precomputed", "C": fit.C, "tol": CONVERGED_TOL, "cache_size": 500}
    if fit.kind == "regression":
        predicted = SVR(epsilon=0.1, **form).fit(among, y[train]).predict(test_kernel)
        return predicted, np.zeros(len(test), bool)
    svc = SVC(decision_function_shape="ovo", **form)
    if fit.kind == "ovr":
        svc = OneVsRestClassifier(svc)
    svc.fit(among, y[train])
    values = np.asarray(svc.decision_function(test_kernel)).reshape(len(test), -1)
    if fit.kind == "ovr":
        ordered = np.sort(values, axis=1)
        values = ordered[:, -1:] - ordered[:, -2:-1]
    return svc.predict(test_kernel), (np.abs(values) < 2 * TOL).any(axis=1)


PAIRS = {
    "search_refit": "the search and its refit",
    "search_libsvm": "the search and LIBSVM, converged",
    "refit_libsvm": "the refit and LIBSVM, converged",
}
GROUPS = (
    "shifted and scaled as a whole",
    "a column far wider than the others",
    "gamma far too large",
    "3,200 × 2,000",
)


def _group_of(fit: dict[str, Any]) -> str:
    """Return which of ``GROUPS`` a fit is of."""
    if fit["features"] == 2000:
        return GROUPS[3]
    return GROUPS[2 if fit["gamma"] > 10 else 1 if fit["one"] else 0]


def page(record: dict[str, Any]) -> str:
    """The record as a page to read."""
    from benchmarks.machine import in_words

    table = []
    for group in GROUPS:
        lines = [fit for fit in record["lines"] if _group_of(fit) == group]
        for pair, words in PAIRS.items():
            differ, beyond = np.sum([fit[pair] for fit in lines] or [[0, 0]], axis=0)
            table.append(
                [
                    group,
                    words,
                    str(len(lines)),
                    f"{sum(fit['asked'] for fit in lines):,}",
                    f"{differ:,}",
                    f"{beyond:,}",
                    str(sum(fit[pair][0] == 0 for fit in lines)),
                ]
            )
    header = [
        "data",
        "between",
        "fits",
        "rows",
        "differ",
        "beyond the tolerance",
        "fits that agree",
    ]
    return (
        f"# Fits on shifted, scaled and wide data, {record['date']}\n\n"
        f"{len(record['lines'])} fits at `tol={TOL}`: predictions of rows that were not trained "
        "on, by a search of one candidate, by the estimator on the same rows, and by LIBSVM at "
        f"`tol={CONVERGED_TOL}` on a kernel of differences in double precision. Beyond the "
        "tolerance: no decision value of LIBSVM's is within twice `tol` of 0. Of a regression, "
        f"predictions differ that are further apart than twice `tol`.\n\n"
        f"{markdown_table(header, table)}\n\n"
        f"{in_words(record['machine'])}. Repeat it: `python -m {COMMAND}`; each fit's seed, and "
        "its counts, are in the JSON beside this page.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
