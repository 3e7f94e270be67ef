import pytest

from benchmarks import nn_bagging, svm_grid


@pytest.mark.parametrize("benchmark", [nn_bagging, svm_grid])
@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--folds", "0"], "--folds: must be at least 1, got 0"),
        (["--dataset", "mine.csv"], "--dataset: invalid choice: 'mine.csv'"),
    ],
)
def test_a_mistake_is_one_line(benchmark, argv, words, capsys):
    assert benchmark.main(argv) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{benchmark.COMMAND}: {words}")
