"""The guard of kept ratios."""

import copy
from pathlib import Path

import pytest

from benchmarks.guard import against, last_kept
from benchmarks.keep import keep

RECORD = {
    "date": "2026-01-05",
    "problem": {"dataset": "digits", "fits": 320},
    "machine": {"cores": 2},
    "comparisons": [
        {"ours": "path", "peer": "GridSearchCV(sklearn)", "ratio": 50.0},
        {"ours": "path", "peer": "GridSearchCV(sklearnex)", "ratio": 40.0},
    ],
}


def later(*ratios, **changes):
    record = copy.deepcopy(RECORD) | changes
    for one, ratio in zip(record["comparisons"], ratios, strict=False):
        one["ratio"] = ratio
    return record


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (later(41.0, 60.0), ["guard  none of 2 ratios fell by more than 20% since 2026-01-05"]),
        (
            later(35.0, 41.0),
            [
                "guard  path against GridSearchCV(sklearn): 35.0 x, 30% less than 50.0 x on "
                "2026-01-05"
            ],
        ),
    ],
)
def test_a_ratio_that_fell_is_named(record, said):
    assert against(record, RECORD) == said


def test_the_newest_of_the_same_problem_is_the_one_to_compare_with(tmp_path: Path):
    name = "svm_grid-digits"
    assert last_kept(tmp_path, name, RECORD) is None
    assert against(RECORD, None) == [
        "guard  no kept result of this problem on as many cores to compare with"
    ]
    for date, other, changes in (
        ("2026-01-05", name, {}),
        ("2025-12-30", name, {}),
        ("2026-01-06", name, {"problem": {"dataset": "digits", "fits": 64}}),
        ("2026-01-07", name, {"machine": {"cores": 64}}),
        ("2026-02-01", "svm_grid-digits-500", {}),
        ("2026-02-01", "nn-svm_grid-digits", {}),
    ):
        keep(tmp_path, other, later(date=date, **changes), "")
    assert last_kept(tmp_path, name, RECORD)["date"] == "2026-01-05"
