from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from pipelines import __version__
from pipelines.errors import InputError
from pipelines.nn_bagging import Options as BaggingOptions
from pipelines.run.groups import options_of_resumed_run
from pipelines.run.options import argument, check_options, list_option, parse_options
from pipelines.run.predict import PredictOptions
from pipelines.svm_grid import Options


def parse(*argv):
    return parse_options(Options, "svm_grid", "what it does", argv)


def test_no_option_gives_the_defaults():
    options, given_options = parse()
    assert options == Options(data_dir=str(Path("data").absolute()))
    assert given_options == {}
    assert (options.dataset, options.decision, options.folds) == ("digits", "ovo", 5)


def test_every_kind_of_option_is_read():
    options, given_options = parse(
        "--dataset",
        "my.csv",
        "--n-c",
        "24",
        "--log-c",
        "-3e0",
        "6.5",
        "--quiet",
        "--decision",
        "ovr",
    )
    assert options.log_c == (-3.0, 6.5)
    assert (options.dataset, options.n_c, options.quiet) == ("my.csv", 24, True)
    assert set(given_options) == {"dataset", "n_c", "log_c", "quiet", "decision"}


def test_a_value_of_a_kept_run_that_is_not_among_the_choices_is_refused():
    """argparse refuses those that are given; a run's record may have been changed by hand."""
    with pytest.raises(InputError) as caught:
        check_options(Options(decision="all"))
    assert str(caught.value) == "--decision must be one of ovo, ovr, got all"


def test_an_option_of_several_values_may_be_given_more_than_once(tmp_path):
    (tmp_path / "a.png").touch()
    argv = ["--image", str(tmp_path / "." / "a.png"), "none.png", "--image", "c.png"]
    options, _ = parse_options(BaggingOptions, "nn_bagging", "what it does", argv)
    assert options.image == (str(tmp_path / "a.png"), "none.png", "c.png")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--folds", "1"], "--folds must be at least 2, got 1"),
        (["--n-c", "0"], "--n-c must be at least 1, got 0"),
        (["--n-gamma", "-3"], "--n-gamma must be at least 1, got -3"),
        (["--workers", "0"], "--workers must be at least 1, got 0"),
        (["--folds", "five"], "--folds must be a whole number, got 'five'"),
        (["--test-size", "1.5"], "--test-size must be between 0 and 1, got 1.5"),
        (
            ["--log-c", "3", "-3"],
            "--log-c must be two numbers between -30 and 30, the smaller first, got",
        ),
        (["--log-gamma", "0", "nan"], "--log-gamma must be two numbers"),
        (["--log-c", "0", "400"], "--log-c must be two numbers between -30 and 30"),
        (["--fold", "3"], "--fold is not an option of this command; did you mean --folds?"),
        (["--xyzzy"], "--xyzzy is not an option of this command; --help lists"),
        (["--decision", "all"], "--decision"),
        (["--seed", "99999999999"], "--seed must be at most 4,294,967,295"),
        (["--memory", "inf"], "--memory must be above 0 and below 1000000, got inf"),
        (["--coef0", "nan"], "--coef0 must be a finite number, got nan"),
        (["--max-iter", "0"], "--max-iter must be at least 1, or -1 for LIBSVM's limit, got 0"),
        (["--max-iter", str(10**20)], f"--max-iter must be at most 2,147,483,647, got {10**20}"),
        (["--workers", str(10**11)], f"--workers must be at most 100,000, got {10**11}"),
        (["--n-c", "2000000000"], "--n-c must be at most 10,000, got 2000000000"),
        (["--n-gamma", "2000000000"], "--n-gamma must be at most 10,000, got 2000000000"),
        (["--tol", "1e-320"], "--tol must be at least 1e-12 and below 1, got 1e-320"),
        (["--log-c", "299", "300"], "--log-c must be two numbers between -30 and 30"),
        (["--results", "a", "--resume", "b"], "--results and --resume cannot be combined"),
    ],
)
def test_a_broken_rule_is_one_line_that_names_it(argv, words):
    with pytest.raises(InputError) as caught:
        parse(*argv)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("option", ["--n-bootstrap", "--n-tuning"])
def test_an_ensemble_is_bounded_too(option):
    with pytest.raises(InputError, match=f"{option} must be at most 10,000, got 100000000"):
        parse_options(BaggingOptions, "nn_bagging", "what it does", [option, "100000000"])


def test_help_says_every_option_and_its_default(capsys):
    with pytest.raises(SystemExit) as caught:
        parse("--help")
    assert caught.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "--n-gamma N number of gamma values (default: 8)" in text
    assert "--log-c FROM TO bounds of log10 C; by default -3 6 for images, -2 4 for" in text


def test_a_resumed_run_keeps_what_was_recorded():
    recorded = {"n_c": 3, "log_c": [-1.0, 2.0], "data_dir": "there", "workers": 7, "quiet": True}
    options = options_of_resumed_run(Options, recorded, {"workers": 2, "n_c": 3}, Path("r"))
    assert (options.n_c, options.log_c, options.data_dir) == (3, (-1.0, 2.0), "there")
    assert (options.workers, options.quiet) == (2, False)


def test_a_resumed_run_stays_on_its_cluster_until_another_is_named():
    recorded = {"cluster": "slurm", "profile": "sulis", "adaptive": [1, 4], "dashboard": "off"}
    same = options_of_resumed_run(Options, recorded, {}, Path("r"))
    assert (same.cluster, same.profile, same.adaptive) == ("slurm", "sulis", (1, 4))
    fewer = options_of_resumed_run(Options, recorded, {"workers": 2}, Path("r"))
    assert (fewer.workers, fewer.adaptive, fewer.profile) == (2, None, "sulis")
    here = options_of_resumed_run(Options, recorded, {"cluster": "local"}, Path("r"))
    assert (here.cluster, here.profile, here.adaptive) == ("local", None, None)
    assert here.dashboard == "off"


def test_a_resumed_run_refuses_a_changed_option():
    with pytest.raises(InputError, match="--folds must stay 5 when resuming r, got 3; remove it"):
        options_of_resumed_run(Options, {"folds": 5}, {"folds": 3}, Path("r"))


def test_paths_are_recorded_absolute_and_names_stay(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.csv").touch()
    (tmp_path / "digits").mkdir()
    options, given_options = parse("--dataset", "mine.csv", "--data-dir", "sets")
    assert options.dataset == given_options["dataset"] == str(tmp_path / "mine.csv")
    assert options.data_dir == str(tmp_path / "sets")
    assert parse("--dataset", "digits")[0].dataset == "digits"


@dataclass(frozen=True)
class WithArguments:
    """Arguments of a command, and an option."""

    run: Path = argument("RUN", "a folder")
    table: Path | None = argument("TABLE", "a table", default=None)
    image: tuple[Path, ...] = list_option((), "images", parse=Path, metavar="FILE")


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ("a", WithArguments(Path("a"))),
        ("./a ~/b", WithArguments(Path("a"), Path("~/b"))),
        ("a --image b c", WithArguments(Path("a"), image=(Path("b"), Path("c")))),
        ("a --image=b c", WithArguments(Path("a"), Path("c"), (Path("b"),))),
        ("--image=b a --image=c t", WithArguments(Path("a"), Path("t"), (Path("b"), Path("c")))),
        ("a -- b", WithArguments(Path("a"), Path("b"))),
    ],
)
def test_arguments_stand_anywhere(argv, expected):
    options, given_options = parse_options(WithArguments, "toy", "what it does", argv.split())
    assert options == expected
    assert given_options == {
        name: value for name, value in vars(options).items() if value not in (None, ())
    }


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ("", "RUN must be a folder, got none"),
        ("--image b", "RUN must be a folder, got none"),
        ("a b c", "c is not an option of this command"),
        ("a --imag b", "--imag is not an option of this command; did you mean --image?"),
        ("--imag", "--imag is not an option of this command; did you mean --image?"),
        ("a --table b", "--table is not an option of this command"),
    ],
)
def test_arguments_that_cannot_be_are_refused(argv, words):
    with pytest.raises(InputError) as caught:
        parse_options(WithArguments, "toy", "what it does", argv.split())
    assert words in caught.value.flagged()


def test_every_command_has_its_version(capsys):
    with pytest.raises(SystemExit) as caught:
        parse("--version")
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"pleasingly {__version__}\n"


def test_predict_says_where_a_table_goes():
    with pytest.raises(InputError, match="predict takes the file as TABLE, after RUN"):
        parse_options(PredictOptions, "svm_grid predict", "what it does", ["r", "--dataset", "x"])
