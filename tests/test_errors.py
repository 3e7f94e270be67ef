from __future__ import annotations

import pickle

from pipelines.errors import InputError, opt

ERROR = InputError(
    f"{opt('n_c')} must be at least 1, got 0; use {opt('device', 'cpu')}, or {opt('folds', 3)}"
)


def test_from_python_a_parameter_reads_as_it_is() -> None:
    assert str(ERROR) == "n_c must be at least 1, got 0; use device='cpu', or folds=3"


def test_on_a_command_line_it_is_a_flag() -> None:
    assert ERROR.flagged() == "--n-c must be at least 1, got 0; use --device cpu, or --folds 3"


def test_a_caller_whose_parameter_has_another_name_names_that() -> None:
    assert str(ERROR.renamed(folds="cv")).endswith("or cv=3")


def test_it_comes_back_from_a_worker_as_it_was() -> None:
    again = pickle.loads(pickle.dumps(ERROR))
    assert (str(again), again.flagged()) == (str(ERROR), ERROR.flagged())
