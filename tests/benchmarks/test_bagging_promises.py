"""The audit of an ensemble's promises: what counts as broken, and one training."""

from __future__ import annotations

import numpy as np

from benchmarks.bagging_promises import SUBJECTS, Audit, audit, line_of, page


def audit_of(n_kept, n_wrong):
    return Audit(1_000, n_kept, n_wrong, 0.95, 0.9, 1.1, 0.02, 1.0)


def test_a_promise_is_broken_by_one_wrong_answer_too_many_and_beyond_chance_by_more():
    assert not audit_of(1_000, 10).is_broken
    assert audit_of(1_000, 11).is_broken
    assert not audit_of(1_000, 11).is_broken_for_sure
    assert audit_of(1_000, 17).is_broken_for_sure
    assert not audit_of(0, 0).is_broken


def test_a_data_set_that_is_made_is_one_problem_whatever_the_seed_of_its_rows():
    for subject in SUBJECTS:
        X, y = subject.draw(500, 0)
        again, _ = subject.draw(500, 0)
        other_rows, classes = subject.draw(500, 1)
        np.testing.assert_array_equal(X, again)
        assert not np.array_equal(X, other_rows)
        assert len(X) > subject.n_train or subject.is_synthetic
        for code in np.unique(y) if subject.is_synthetic else ():
            of_class, others_of_class = X[y == code], other_rows[classes == code]
            apart = np.abs(of_class.mean(axis=0) - others_of_class.mean(axis=0))
            assert (apart < X.std(axis=0)).all()


def test_a_training_is_asked_about_rows_that_it_has_not_seen():
    wine = next(subject for subject in SUBJECTS if subject.name == "wine")
    result = audit(wine, 0)
    assert result.n_asked == 178 - wine.n_train
    assert result.n_kept == 0  # so few rows prove nothing
    assert 0.7 < result.worst <= result.coverage <= 1
    cells = line_of(wine, [result, audit_of(100, 5)])
    assert cells[3:8] == ["1 of 2", "10%", "5.00%", "50%", "50%"]
    assert "2 trainings 1 kept answers; in 1 of them" in page(
        [wine], {"wine": [result, audit_of(100, 5)]}
    )
