"""Which of several runs is best, in one sentence, and whether that is certain."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from pipelines.report.base import Report
from pipelines.report.run_table import measure_of_run
from pipelines.report.wording import count
from pipelines.run_folder.measures import Measure, measure_of
from pipelines.run_folder.record import n_splits_of
from pipelines.run_folder.statistics import corrected_t, holm, mcnemar, wilson

Runs = Mapping[str, Report]  # by their names
SIGNIFICANT = 0.05  # p below which a difference is called significant
MOST_NAMED = 3  # runs that a sentence names beside the best
DIFFERENT_DATA = "These runs have different data, so it cannot be said which is better."
NOTHING_IN_COMMON = (
    "These runs have no score, no folds and no test samples in common, so it cannot be said which "
    "is better."
)


@dataclass(frozen=True)
class Finding:
    """The best of several runs by one statistical test.

    Attributes
    ----------
    what : str
        What is compared, such as ``test error``.
    values : mapping of str to str
        Value of each run as text, by its name, the best run first.
    where : str
        The folds or samples that were compared, as in "on the same 5 folds".
    test : str
        Name of the test.
    p_values : sequence of float
        For each run but the best, after Holm's correction; infinite if the test has no p.
    """

    what: str
    values: Mapping[str, str]
    where: str
    test: str
    p_values: Sequence[float]

    def sentence(self) -> str:
        """The finding in one sentence."""
        best, *other_names = self.values
        value, *other_values = self.values.values()
        worse_runs = [n for n, p in zip(other_names, self.p_values, strict=True) if p < SIGNIFICANT]
        rivals = [name for name in other_names if name not in worse_runs]
        if {value} == {*other_values} and not worse_runs:
            names = list_in_sentence(list(self.values))
            return f"{names} are equally good: their {self.what} is {value} {self.where}."
        if not worse_runs:
            text = f"It is not certain that {best} is better than {list_in_sentence(rivals)}"
        else:
            text = f"{best} is significantly better than {list_in_sentence(worse_runs)}"
            if rivals:
                text += f", but it is not certain that it is better than {list_in_sentence(rivals)}"
        text += f": its {self.what} is {value}, against "
        text += (
            list_in_sentence(other_values)
            if len(other_values) <= MOST_NAMED
            else f"{other_values[0]} of {other_names[0]}, the next"
        )
        text += (
            f", {self.where}{'' if worse_runs else ', and differences this small may be chance'}"
        )
        p_texts = [f"{p:.3f}" if p >= 0.001 else "< 0.001" for p in self.p_values]
        if not np.isfinite(self.p_values).all():
            words = ""
        elif len(other_names) == 1:
            words = f", p {p_texts[0]}" if "<" in p_texts[0] else f", p = {p_texts[0]}"
        else:
            p_of_runs = [f"{p} for {name}" for name, p in zip(other_names, p_texts, strict=True)]
            words = f"; p after Holm is {list_in_sentence(p_of_runs)}"
        return f"{text} ({self.test}{words})."


def verdict(runs: Runs) -> str:
    """Which of several runs is best, and whether that is certain, in one or two sentences.

    Runs are compared by the first of these that all of them allow: scores of the best candidates
    on the same folds (corrected resampled t-test); predictions of the same test samples (McNemar's
    exact test for classes, the paired t-test for absolute errors); 95 % intervals of test errors.
    With more than two runs, the best one is compared with each of the others, and p is corrected by
    Holm's method.
    """
    scored_runs = {name: run for name, run in runs.items() if has_score(run)}
    names = [name for name in runs if name not in scored_runs]
    suffix = ""
    if names:
        suffix = f" {list_in_sentence(names)} {'has' if len(names) == 1 else 'have'} no score."
    if len(scored_runs) < 2:
        return f"There are no two runs with a score to compare.{suffix}"
    if have_different_data(scored_runs):
        return DIFFERENT_DATA + suffix
    for method in (by_folds, by_test_samples, by_intervals):
        if (finding := method(scored_runs)) is not None:
            return finding.sentence() + suffix
    return NOTHING_IN_COMMON + suffix


def has_score(run: Report) -> bool:
    """Whether a run has a score, by cross-validation or on test samples."""
    record = run.record
    is_validated = record.best is not None and record.best.score_mean is not None
    is_tested = record.test_error is not None or bool(record.test_scores)
    return is_validated or is_tested or run.metadata.get("test_metric") is not None


def have_different_data(runs: Runs) -> bool:
    """Whether runs are known to differ in their data or in its split."""
    # Each command prepares data in its own way, so fingerprints can be equal only within one
    # command.
    data_of_runs = [(run.record.command, run.record.dataset) for run in runs.values()]
    return len({(data.name, data.n_train, data.n_test) for _, data in data_of_runs}) > 1 or len(
        {(command, data.fingerprint) for command, data in data_of_runs}
    ) > len({command for command, _ in data_of_runs})


def by_folds(runs: Runs) -> Finding | None:
    """Compare the best candidates fold by fold; None where the folds are not the same."""
    scores = scores_on_same_folds(runs)
    if scores is None:
        return None
    measure, n_folds = measure_of_best(next(iter(runs.values()))), len(scores)
    means = scores.mean().sort_values(ascending=measure.is_loss, kind="stable")
    best, *other_names = means.index
    ratio = ratio_of(runs[best])
    p_values = [
        corrected_t((scores[best] - scores[other]).to_numpy(float), ratio)[-1]
        for other in other_names
    ]
    return Finding(
        f"cross-validated {measure.name}",
        {str(name): measure.text(value) for name, value in means.items()},
        f"on the same {n_folds} folds",
        "corrected resampled t-test",
        holm(p_values),
    )


def by_test_samples(runs: Runs) -> Finding | None:
    """Compare predictions of the same test samples; None where a run has none or has others."""
    for attribute, measure, test in (
        ("predictions", measure_of(None), "McNemar's exact test"),
        ("residuals", Measure("mean absolute error", False, True), "paired t-test"),
    ):
        tables = {name: getattr(run, attribute) for name, run in runs.items()}
        if not all(table is not None and len(table) for table in tables.values()):
            continue
        first, *other_tables = (table[["row", "true"]].to_numpy() for table in tables.values())
        if len({tuple(run.classes) for run in runs.values()}) > 1 or not all(
            np.array_equal(first, other) for other in other_tables
        ):
            continue
        if measure.is_error:
            errors = {n: (t["true"] != t["predicted"]).to_numpy() for n, t in tables.items()}
        else:
            errors = {n: (t["true"] - t["predicted"]).abs().to_numpy() for n, t in tables.items()}
        means = {name: float(run_errors.mean()) for name, run_errors in errors.items()}
        best, *other_names = sorted(means, key=means.__getitem__)
        p_values = [
            mcnemar(errors[best], errors[other])
            if measure.is_error
            else corrected_t(errors[best] - errors[other], 0.0)[-1]  # samples do not overlap
            for other in other_names
        ]
        return Finding(
            f"test {measure.name}",
            {name: measure.text(means[name]) for name in (best, *other_names)},
            f"on the same {count(len(first), 'test sample')}",
            test,
            holm(p_values),
        )
    return None


def by_intervals(runs: Runs) -> Finding | None:
    """Compare test errors by their 95 % intervals; None where a run has no test error."""
    error_counts = {
        name: (record.n_test_errors, record.dataset.n_test)
        for name, record in ((name, run.record) for name, run in runs.items())
        if record.n_test_errors is not None and record.dataset.n_test
    }
    if len(error_counts) < len(runs):
        return None
    error_rates = {name: n_wrong / n_test for name, (n_wrong, n_test) in error_counts.items()}
    best, *other_names = sorted(error_rates, key=error_rates.__getitem__)
    high = wilson(*error_counts[best])[1]
    are_apart = [wilson(*error_counts[other])[0] > high for other in other_names]
    measure = measure_of(None)
    return Finding(
        "test error",
        {name: measure.text(error_rates[name]) for name in (best, *other_names)},
        f"on {count(error_counts[best][1], 'test sample')}",
        "by whether 95 % intervals overlap",
        [-math.inf if is_apart else math.inf for is_apart in are_apart],  # in place of p
    )


def measure_of_best(run: Report) -> Measure:
    """What is measured by the scores that chose the best candidate of a run."""
    return measure_of_run(run.metadata, run.record)


def scores_of_best(run: Report) -> pd.Series:
    """Scores of the best candidate of a run on each fold, as the page shows them."""
    cells, best = run.cells, run.record.best
    values: dict[str, Any] = {} if best is None else best.model_dump()
    key_columns = [name for name in run.key_columns if values.get(name) is not None]
    if cells.empty or not key_columns or not {"fold", "score", *key_columns} <= set(cells):
        return pd.Series(dtype=float)
    cells = cells.merge(
        pd.DataFrame([{name: values[name] for name in key_columns}]), on=key_columns
    )
    return measure_of_best(run).of(cells.set_index("fold")["score"])


def scores_on_same_folds(runs: Runs) -> pd.DataFrame | None:
    """Scores of the best candidates, with a row for each fold and a column for each run.

    None where runs differ in their folds or their measure, or have fewer than two folds in common.
    """
    records = [run.record for run in runs.values()]
    # Without these, equal folds cannot be told from different ones.
    if any(None in (record.dataset.fingerprint, record.options.folds) for record in records):
        return None
    if len({(folds_of(run), measure_of_best(run)) for run in runs.values()}) > 1:
        return None
    scores = {name: scores_of_best(run) for name, run in runs.items()}
    sizes = [run.cells.groupby("fold")["n_validation"].first() for run in runs.values()]
    if not all(fold_scores.index.is_unique for fold_scores in scores.values()) or not all(
        size.equals(sizes[0]) for size in sizes
    ):
        return None
    table = pd.concat(scores, axis=1, join="inner").dropna()
    return table if len(table) > 1 else None


def folds_of(run: Report) -> tuple[Any, ...]:
    """A key that two runs have in common if they have the same rows in the same folds."""
    record, options = run.record, run.record.options
    folds = (options.folds, n_splits_of(run.metadata), options.seed, options.cv or "auto")
    code = {} if record.identity is None else record.identity.inputs.get("cv", {})
    groups = run.metadata.get("options", {}).get("groups")
    return record.dataset.fingerprint, *folds, groups, tuple(sorted(code.items()))


def ratio_of(run: Report) -> float:
    """Validation rows per training row, for the corrected t-test."""
    # Older runs, which did not record it, all had k folds: one part in k - 1.
    return run.record.ratio or 1.0 / ((run.record.options.folds or 2) - 1)


def paired_table(runs: Runs) -> pd.DataFrame:
    """Paired tests of all runs whose best candidates were scored on the same folds.

    Parameters
    ----------
    runs : mapping of str to Report

    Returns
    -------
    DataFrame
        A row for each pair, with the number of folds, the mean and the standard deviation of the
        differences, t and p of the corrected resampled t-test, and p corrected for the number of
        pairs by Holm's method.

    References
    ----------
    C. Nadeau and Y. Bengio, Inference for the generalization error, Machine Learning 52, 2003.

    S. Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of
    Statistics 6, 1979.
    """
    rows = []
    for first, second in combinations(runs, 2):
        pair = {name: runs[name] for name in (first, second)}
        if (scores := scores_on_same_folds(pair)) is None:
            continue
        differences = (scores[first] - scores[second]).to_numpy(float)
        mean, _, _, t, p = corrected_t(differences, ratio_of(runs[first]))
        measure = measure_of_best(runs[first]).name
        rows.append((first, second, measure, len(scores), mean, float(differences.std()), t, p))
    heads = ["first", "second", "measure", "folds", "difference", "standard deviation", "t", "p"]
    table = pd.DataFrame(rows, columns=heads)
    return table.assign(**{"p, Holm": holm(table["p"].tolist())})


def list_in_sentence(words: Sequence[str]) -> str:
    """Names as a list in a sentence: "a, b and c". With many, the last counts the others."""
    shown_words = list(words)
    if len(shown_words) > MOST_NAMED + 1:
        shown_words = [*shown_words[:MOST_NAMED], f"{len(shown_words) - MOST_NAMED} others"]
    return " and ".join(
        [", ".join(shown_words[:-1]), shown_words[-1]] if len(shown_words) > 1 else shown_words
    )
