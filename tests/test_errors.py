from __future__ import annotations

import pickle
import traceback

import pytest

from pipelines.errors import InputError, error_line, opt

ERROR = InputError(
    f"{opt('n_c')} must be at least 1, got 0; use {opt('device', 'cpu')}, or {opt('folds', 3)}"
)


def test_from_python_a_parameter_reads_as_it_is():
    assert str(ERROR) == "n_c must be at least 1, got 0; use device='cpu', or folds=3"


def test_on_a_command_line_it_is_a_flag():
    assert ERROR.flagged() == "--n-c must be at least 1, got 0; use --device cpu, or --folds 3"


def test_a_caller_whose_parameter_has_another_name_names_that():
    assert str(ERROR.renamed(folds="cv")).endswith("or cv=3")


def test_it_comes_back_from_a_worker_as_it_was():
    again = pickle.loads(pickle.dumps(ERROR))
    assert (str(again), again.flagged()) == (str(ERROR), ERROR.flagged())


class TextlessError(Exception):
    def __str__(self):
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("first\nsecond"), "ValueError: first"),
        (ValueError("\n\nfirst\nsecond"), "ValueError: first"),
        (KeyError("a\nb"), "KeyError: 'a\\nb'"),
        (ValueError(), "ValueError"),
        (ValueError("half \ud800"), "ValueError: half \\ud800"),
        (ValueError("x" * 5000), "ValueError: " + "x" * 988 + "..."),
    ],
    ids=repr,
)
def test_an_error_and_its_traceback_are_the_same_line(error, line):
    assert error_line(error) == line
    try:
        raise error
    except Exception:
        assert error_line(traceback.format_exc()) == line


def test_the_last_of_several_tracebacks_counts():
    try:
        try:
            raise KeyError("first")
        except KeyError as error:
            raise OSError("second\nand more") from error
    except OSError:
        assert error_line(traceback.format_exc()) == "OSError: second"


def test_an_error_without_a_text_has_a_line():
    assert error_line(TextlessError()) == "TextlessError: its text cannot be had (RuntimeError)"


@pytest.mark.parametrize("text", ["its worker died 4 times", "  first\nsecond", ""])
def test_text_that_is_no_traceback_is_cut_to_its_first_line(text):
    assert error_line(text) == (text.splitlines() or [""])[0].strip()
