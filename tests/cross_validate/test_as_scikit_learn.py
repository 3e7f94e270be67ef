"""scikit-learn's own tests of its searches, with ``GridSearch`` for ``GridSearchCV``."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
import sklearn
from sklearn import model_selection

from pipelines.search.grid_search import GridSearch

# Theirs are written for warnings that do not end a test.
pytestmark = pytest.mark.filterwarnings("ignore")


def theirs():
    """Their file, loaded anew with ours under their name: it also stands in their parameters."""
    path = Path(sklearn.__file__).parent / "model_selection" / "tests" / "test_search.py"
    spec = importlib.util.spec_from_file_location("scikit_learn_test_search", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # one of them pickles a class of the file
    own_search = model_selection.GridSearchCV
    model_selection.GridSearchCV = GridSearch
    try:
        spec.loader.exec_module(module)
    finally:
        model_selection.GridSearchCV = own_search
    return module


def with_lists(test):
    """The test with lists where its parameters come from a generator, which pytest warns of."""
    marks = getattr(test, "pytestmark", [])
    test.pytestmark = [
        pytest.mark.parametrize(mark.args[0], list(mark.args[1]), **mark.kwargs).mark
        if mark.name == "parametrize"
        else mark
        for mark in marks
    ]
    return test


THEIRS = theirs()
for _name, _test in list(vars(THEIRS).items()):
    if _name.startswith("test_"):
        globals()[_name] = with_lists(_test)


@pytest.fixture
def global_random_seed():
    """As scikit-learn runs them by default."""
    return 42


@pytest.fixture
def enable_slep006():
    """With routed metadata."""
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def test_ours_is_what_they_test():
    module = THEIRS
    assert module.GridSearchCV is GridSearch
    assert sum(name.startswith("test_") for name in vars(module)) > 80
