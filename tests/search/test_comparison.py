"""Comparison of algorithms, against numbers from the literature and by hand."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student
from scipy.stats import ttest_rel

from pipelines.run_folder.statistics import holm
from pipelines.search.ranking import compare_algorithms, compare_scores

FIRST = np.array([0.90, 0.93, 0.88, 0.95, 0.91, 0.90, 0.94, 0.92, 0.89, 0.93])
SECOND = np.array([0.88, 0.92, 0.88, 0.91, 0.90, 0.91, 0.90, 0.90, 0.88, 0.91])


def test_without_overlap_it_is_the_paired_t_test():
    comparison = compare_scores(FIRST, SECOND, ratio=0.0, rope=0.0)
    expected = ttest_rel(FIRST, SECOND)
    assert comparison["t"] == pytest.approx(expected.statistic)
    assert comparison["p"] == pytest.approx(expected.pvalue)
    assert comparison["effect"] == pytest.approx(expected.statistic / math.sqrt(10))


def test_the_variance_grows_by_the_ratio_of_rows():
    # 10-fold: validation rows are 1/9 of the training rows (Nadeau and Bengio 2003, eq. 9).
    comparison = compare_scores(FIRST, SECOND, ratio=1 / 9, rope=0.01)
    differences = FIRST - SECOND
    spread = differences.std(ddof=1) * math.sqrt(1 / 10 + 1 / 9)
    assert comparison["t"] == pytest.approx(differences.mean() / spread)
    assert comparison["p"] == pytest.approx(2 * student.sf(comparison["t"], 9))
    assert comparison["p"] > ttest_rel(FIRST, SECOND).pvalue
    assert comparison["p_first"] + comparison["p_same"] + comparison["p_second"] == pytest.approx(1)
    assert comparison["p_first"] == pytest.approx(
        student.cdf((differences.mean() - 0.01) / spread, 9)
    )


def test_equal_scores_are_no_difference_and_constant_ones_leave_no_doubt():
    same = compare_scores(FIRST, FIRST, 0.1, 0.01)
    assert (same["t"], same["p"], same["p_same"]) == (0.0, 1.0, 1.0)
    always = compare_scores(FIRST + 0.25, FIRST, 0.1, 0.01)
    assert math.isnan(always["p"])
    assert (always["p_first"], always["p_same"]) == (1.0, 0.0)


def test_holm_is_that_of_his_paper():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == pytest.approx([1.0, 1.0])
    assert math.isnan(holm([math.nan, 0.04])[0])
    assert holm([math.nan, 0.04])[1] == pytest.approx(0.04)


def test_all_pairs_are_compared_once():
    scores = {"a": FIRST, "b": SECOND, "c": SECOND[::-1]}
    cells = pd.DataFrame(
        [
            {"candidate": i, "fold": fold, "score": score}
            for i, fold_scores in enumerate(scores.values())
            for fold, score in enumerate(fold_scores)
        ]
    )
    best = dict(zip(scores, range(3), strict=True))
    comparison = compare_algorithms(cells.sample(frac=1, random_state=0), best, 1 / 9, 0.01)
    assert comparison[["first", "second"]].to_numpy().tolist() == [
        ["a", "b"],
        ["a", "c"],
        ["b", "c"],
    ]
    assert (comparison["p_holm"] >= comparison["p"]).all()
    assert comparison["p"][0] == pytest.approx(compare_scores(FIRST, SECOND, 1 / 9, 0.01)["p"])
