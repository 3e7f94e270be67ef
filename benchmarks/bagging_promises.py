"""Whether what an ensemble promises holds: ``python -m benchmarks.bagging_promises``.

``BaggedNets`` promises two things of new rows: that at most a share of the answers it keeps is
wrong, with a confidence; and that its prediction sets hold the true class of a share of all rows.
Here it is trained on ten data sets, many times each, and asked about rows it has not seen. Of data
sets that are made there are as many of those as one likes, so that a broken promise is one of the
ensemble, not of the few rows it was tested on; of the others the test rows are counted alone, and
an error above the promise may be chance: the table has both, told apart.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command import add_count, add_results, exit_status
from benchmarks.keep import keep, markdown_table, stamped
from pipelines.errors import InputError
from pipelines.run.options import OneLineParser

COMMAND = "benchmarks.bagging_promises"
ERROR, CONFIDENCE = 0.01, 0.95
FRESH = 20_000  # new rows of a data set that is made
Rows = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Subject:
    """A data set to train on a part of.

    Attributes
    ----------
    draw : function of a number of rows and a seed, which returns rows and their classes; of a data
        set that is not made it returns all of its rows, shuffled
    n_train : rows to train on
    is_synthetic : bool
        Whether there are as many new rows as one likes.
    """

    name: str
    draw: Callable[[int, int], Rows]
    n_train: int
    is_synthetic: bool = True


def _classification(n: int, seed: int, structure: int = 0, **options: Any) -> Rows:
    """Draw rows of one problem of ``make_classification``, whatever the seed of the rows."""
    from sklearn.datasets import make_classification

    # Its seed decides the classes' places, too: so rows are drawn from many that are made once.
    X, y = make_classification(200_000, random_state=structure, shuffle=False, **options)
    places = np.random.default_rng(seed).choice(len(y), n, replace=False)
    return X[places], y[places]


def _moons(n: int, seed: int) -> Rows:
    from sklearn.datasets import make_moons

    return make_moons(n, noise=0.2, random_state=seed)


def _blobs(n: int, seed: int) -> Rows:
    from sklearn.datasets import make_blobs

    centers = np.random.default_rng(7).normal(0, 4, (5, 4))
    X, y = make_blobs(n, centers=centers, cluster_std=1.2, random_state=seed)
    return X, y


def _quantiles(n: int, seed: int) -> Rows:
    # Not make_gaussian_quantiles, which cuts its classes at quantiles of the rows that are drawn.
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, 3))
    y = np.searchsorted([1.42, 2.95], np.square(X).sum(axis=1) * generator.normal(1, 0.05, n) ** 2)
    return X, y


def _hastie(n: int, seed: int) -> Rows:
    from sklearn.datasets import make_hastie_10_2

    return make_hastie_10_2(n, random_state=seed)


def _shipped(name: str, n: int, seed: int) -> Rows:
    from sklearn import datasets

    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    return X[order], y[order]


SUBJECTS = (
    Subject("two moons", _moons, 2_000),
    Subject("five blobs", _blobs, 2_000),
    Subject("three shells", _quantiles, 2_000),
    Subject("sum of squares (Hastie)", _hastie, 1_500),
    Subject(
        "four classes, 20 features",
        partial(
            _classification, n_features=20, n_informative=8, n_classes=4, flip_y=0, class_sep=1.5
        ),
        2_000,
    ),
    Subject(
        "one in ten",
        partial(
            _classification, n_features=10, n_informative=5, weights=[0.9], flip_y=0, class_sep=1.5
        ),
        2_000,
    ),
    Subject(
        "labels wrong in 1 %",
        partial(_classification, n_features=10, n_informative=5, flip_y=0.02, class_sep=2.0),
        2_000,
    ),
    Subject("breast cancer", partial(_shipped, "breast_cancer"), 400, is_synthetic=False),
    Subject("digits", partial(_shipped, "digits"), 1_000, is_synthetic=False),
    Subject("wine", partial(_shipped, "wine"), 120, is_synthetic=False),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; give its exit status: 0, or 2 for bad input."""
    return exit_status(COMMAND, lambda: _run(_parser().parse_args(argv)))


def _parser() -> OneLineParser:
    parser = OneLineParser(prog=f"python -m {COMMAND}", description=__doc__)
    add_count(parser, "--seeds", 100, "trainings on each data set")
    add_count(parser, "--jobs", 1, "trainings at once")
    parser.add_argument("--only", metavar="NAME", help="data sets whose names contain it")
    add_results(parser)
    return parser


def _run(options: argparse.Namespace) -> None:
    subjects = [subject for subject in SUBJECTS if (options.only or "") in subject.name]
    if not subjects:
        names = ", ".join(subject.name for subject in SUBJECTS)
        raise InputError(f"--only must be part of a data set's name, got {options.only}: {names}")
    lines: dict[str, list[Audit]] = {}
    with ProcessPoolExecutor(options.jobs) as pool:
        for number, subject in enumerate(SUBJECTS):
            if subject not in subjects:
                continue
            audits = pool.map(partial(_audit_numbered, number), range(options.seeds))
            lines[subject.name] = list(audits)
            print(" | ".join(line_of(subject, lines[subject.name])), flush=True)
    record = stamped(
        "bagging_promises",
        error=ERROR,
        confidence=CONFIDENCE,
        fresh=FRESH,
        audits={name: [asdict(audit) for audit in audits] for name, audits in lines.items()},
    )
    text = page(subjects, lines)
    print(f"\n{text}\nkept in {keep(Path(options.results), 'bagging-promises', record, text)}")


@dataclass(frozen=True)
class Audit:
    """What became of the promises of one training.

    Attributes
    ----------
    n_asked : new rows
    n_kept, n_wrong : answers that were kept, and of these the wrong ones
    coverage : share of the new rows whose set holds their class
    worst : the same in the class where it is least
    size : mean number of classes in a set
    error : of all answers
    seconds : of CPU time
    """

    n_asked: int
    n_kept: int
    n_wrong: int
    coverage: float
    worst: float
    size: float
    error: float
    seconds: float

    @property
    def is_broken(self) -> bool:
        """Whether more of the kept answers are wrong than was promised."""
        return self.n_wrong > ERROR * self.n_kept

    @property
    def is_broken_for_sure(self) -> bool:
        """Whether so many wrong ones would come by chance in fewer than 5 of 100 samples."""
        from scipy.stats import binom

        return bool(self.n_kept) and binom.sf(self.n_wrong - 1, self.n_kept, ERROR) < 0.05


def _audit_numbered(number: int, seed: int) -> Audit:
    return audit(SUBJECTS[number], seed)


def audit(subject: Subject, seed: int) -> Audit:
    """Train once, and ask about new rows."""
    import torch

    from pipelines import BaggedNets

    torch.set_num_threads(1)
    X, y = subject.draw(subject.n_train + FRESH, seed)
    train, fresh = np.split(np.arange(len(y)), [subject.n_train])
    began = time.process_time()
    nets = BaggedNets(random_state=seed, defer_error=ERROR, confidence=CONFIDENCE, device="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nets.fit(X[train], y[train])
    assessment = nets.assess(X[fresh])
    wrong = nets.predict(X[fresh]) != y[fresh]
    codes = np.searchsorted(nets.classes_, y[fresh])
    covered = assessment.sets[np.arange(len(fresh)), codes]
    assert assessment.kept is not None
    return Audit(
        len(fresh),
        int(assessment.kept.sum()),
        int((wrong & assessment.kept).sum()),
        float(covered.mean()),
        min(float(covered[codes == code].mean()) for code in np.unique(codes)),
        float(assessment.sets.sum(axis=1).mean()),
        float(wrong.mean()),
        time.process_time() - began,
    )


HEADER = (
    "data set",
    "rows",
    "error of all",
    "kept: runs",
    "share",
    "their error",
    "promise broken",
    "beyond chance",
    "sets cover",
    "least run",
    "worst class",
    "least run",
    "classes in a set",
    "CPU s",
)


def line_of(subject: Subject, audits: Sequence[Audit]) -> list[str]:
    """A data set's line of the table."""
    kept = [audit for audit in audits if audit.n_kept]
    n_kept = sum(audit.n_kept for audit in kept)
    broken, sure = (
        sum(getattr(audit, name) for audit in audits)
        for name in ("is_broken", "is_broken_for_sure")
    )
    coverage, worst = ([getattr(audit, name) for audit in audits] for name in ("coverage", "worst"))
    return [
        subject.name,
        f"{subject.n_train:,}",
        f"{np.mean([audit.error for audit in audits]):.1%}",
        f"{len(kept)} of {len(audits)}",
        f"{n_kept / sum(audit.n_asked for audit in kept):.0%}" if kept else "–",
        f"{sum(audit.n_wrong for audit in kept) / n_kept:.2%}" if kept else "–",
        f"{broken / len(audits):.0%}",
        f"{sure / len(audits):.0%}",
        f"{np.mean(coverage):.1%}",
        f"{min(coverage):.1%}",
        f"{np.mean(worst):.1%}",
        f"{min(worst):.1%}",
        f"{np.mean([audit.size for audit in audits]):.2f}",
        f"{np.median([audit.seconds for audit in audits]):.1f}",
    ]


def page(subjects: Sequence[Subject], lines: dict[str, list[Audit]]) -> str:
    """What is kept to be read."""
    n_runs = sum(map(len, lines.values()))
    kept = [audit for audits in lines.values() for audit in audits if audit.n_kept]
    broken = sum(audit.is_broken_for_sure for audit in kept)
    allowed = round((1 - CONFIDENCE) * n_runs)
    seconds = sum(audit.seconds for audits in lines.values() for audit in audits)
    table = markdown_table(HEADER, [line_of(subject, lines[subject.name]) for subject in subjects])
    return f"""# Whether an ensemble's promises hold

`BaggedNets` with `defer_error={ERROR}` and `confidence={CONFIDENCE}` in {n_runs:,} trainings, each
on rows of its own, and asked about rows that it has not seen: {FRESH:,} of data sets that are
made, the rest of those that scikit-learn ships.

{table}

Of {n_runs:,} trainings {len(kept):,} kept answers; in {broken} of them more than {ERROR:.0%} of
those were wrong, beyond chance in the rows they were tested on; {allowed} are allowed. *Promise
broken* counts chance in, *worst class* is the class that its sets cover least. Where nothing is
kept, the promise could not be proved, and all rows are deferred.

Again: `python -m {COMMAND}`, {seconds / 60:.0f} minutes of one core.
"""


if __name__ == "__main__":
    sys.exit(main())
