"""``--cv`` and what it refuses."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold

from pipelines.errors import InputError
from pipelines.search.splits import make_splits, shorten_training, splits_of

Y = np.arange(60) % 3
X = np.arange(120.0).reshape(60, 2)
GROUPS = np.arange(60) // 10


def split(kind, n_folds=3, **extra_options):
    options = {
        "n_repeats": 2,
        "seed": 0,
        "X": X,
        "y": Y,
        "groups": GROUPS,
        "task": "classification",
    } | extra_options
    return splits_of(kind, n_folds, **options)


def test_stratified_folds_are_those_of_the_other_commands():
    expected = StratifiedKFold(3, shuffle=True, random_state=0).split(X, Y)
    for fold, (train, test) in zip(split("auto"), expected, strict=True):
        assert fold[0].tolist() == train.tolist()
        assert fold[1].tolist() == test.tolist()


@pytest.mark.parametrize("kind", ["stratified", "kfold", "repeated", "group"])
def test_every_row_is_validated_once_a_repeat(kind):
    folds = split(kind)
    assert len(folds) == (6 if kind == "repeated" else 3)
    for start in range(0, len(folds), 3):
        rows = np.concatenate([test for _, test in folds[start : start + 3]])
        assert sorted(rows.tolist()) == list(range(60))
    assert all(not set(train) & set(test) for train, test in folds)
    if kind == "group":
        assert all(not set(GROUPS[train]) & set(GROUPS[test]) for train, test in folds)
    assert len({str(test) for _, test in folds}) == len(folds), "repeats differ"


def test_what_is_validated_comes_after_what_trains():
    for train, test in split("time"):
        assert train.max() < test.min()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kind": "group", "n_folds": 7}, "folds must not exceed the 6 groups, got 7"),
        ({"kind": "stratified", "n_folds": 30}, "folds must not exceed the training rows of any"),
        ({"kind": "kfold", "n_folds": 61}, "folds must not exceed the 60 rows, got 61"),
        ({"kind": "time", "n_folds": 60}, "folds must not exceed the 60 rows, got 60"),
        ({"kind": "none.py:folds"}, "cv must be .* FILE.py:NAME that can be imported"),
    ],
)
def test_what_cannot_be_split_is_said(options, words):
    with pytest.raises(InputError, match=words):
        split(**options)


def of_ones_own(tmp_path, body):
    (tmp_path / "mine.py").write_text(f"import numpy as np\ndef folds(X, y, groups):\n    {body}\n")
    return f"{tmp_path / 'mine.py'}:folds"


def test_a_function_of_ones_own_gives_pairs_or_a_splitter(tmp_path):
    kind = of_ones_own(tmp_path, "return [(np.arange(40), np.arange(40, 60)), ([0, 1], [2])]")
    assert [len(train) for train, _ in split(kind)] == [40, 2]
    kind = of_ones_own(
        tmp_path, "from sklearn.model_selection import LeaveOneGroupOut; return LeaveOneGroupOut()"
    )
    assert len(split(kind)) == 6


def test_a_function_that_writes_to_the_rows_changes_none(tmp_path):
    before = X.copy(), Y.copy(), GROUPS.copy()
    split(
        of_ones_own(tmp_path, "X[:] = 0; y[:] = 0; groups[:] = 0; return [([0], [1]), ([1], [0])]")
    )
    for array, kept in zip((X, Y, GROUPS), before, strict=True):
        np.testing.assert_array_equal(array, kept)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return [([0], [60]), ([1], [2])]", "a row number is not below 60"),
        ("return [([0], [1])]", "it gave 1 splits"),
        ("return [([0], []), ([1], [2])]", "no array of row numbers"),
        ("raise KeyError('colour')", "KeyError: 'colour'"),
        ("return 1 / 0", "ZeroDivisionError"),
        ("raise SystemExit(3)", "SystemExit: 3"),
    ],
)
def test_a_function_that_gives_no_splits_is_refused(tmp_path, body, words):
    with pytest.raises(InputError, match=words):
        split(of_ones_own(tmp_path, body))


def test_inner_folds_know_nothing_of_the_outer_ones():
    rows = {"X_train": X, "y_train": Y, "groups": GROUPS, "task": "classification"}
    data = SimpleNamespace(**rows, classes=np.arange(3))
    splits = make_splits(data, "group", 2, 1, 0, nested=3, learning_curve=False)
    outer, inner = splits["outer", 1.0], splits["inner", 1.0]
    assert (len(outer), len(inner)) == (3, 6)
    for i, (fit, validation) in enumerate(inner):
        train, _ = outer[i // 2]
        assert sorted([*fit, *validation]) == sorted(train)
        assert not set(GROUPS[fit]) & set(GROUPS[validation])


def test_a_share_of_rows_keeps_classes_or_the_latest():
    whole = split("stratified")[0]
    train, test = shorten_training(whole, 0.5, Y, "classification", False, 0)
    assert test is whole[1]
    assert sorted(np.bincount(Y[train]).tolist()) == [6, 7, 7]
    train, _ = shorten_training((np.arange(40), np.arange(40, 60)), 0.25, Y, "regression", True, 0)
    assert train.tolist() == list(range(30, 40))
