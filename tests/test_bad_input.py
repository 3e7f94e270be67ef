"""What the commands refuse: one line, exit status 2, and no folder is left behind."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

ROWS = "\n".join(f"{i % 7},{i % 3},{i * 0.37},{'red' if i % 2 else 'blue'}" for i in range(40))
FILES = {
    "table.csv": f"a,b,x,colour\n{ROWS}\n",
    "gap.csv": "a,y\n1,0\n,1\n",
    "infinite.csv": "a,y\n1,0\n-inf,1\n",
    "twice.csv": "y,a,y\n1,2,1\n0,3,0\n",
    "rare.csv": "a,y\n" + "1,3\n" * 20 + "2,4\n" * 20 + "3,26\n4,29\n",
    "levels.csv": "a,y\n" + "".join(f"w{i % 60},{i % 2}\n" for i in range(120)),
    "one.csv": "a,y\n1,0\n2,0\n3,0\n",
    "few.csv": "a,y\n" + "1,0\n" * 20 + "2,1\n" * 4,
    "negative.csv": "a,b,w\n1,2,-3\n",
    "nan.csv": "a,b,w\n1,2,nan\n",
    "empty.csv": "a,b,w\n",
    "mine.py": "",
    "list.yaml": "- 1\n",
    "no-values.yaml": "knn: {n_neighbors: []}\n",
    "steps.yaml": "pca: 3\n",
    "class.yaml": "- pca: {class: sklearn.PCA}\n",
    "used/file": "",
}
DRY, OF_X = "--dry-run --cluster local ", "--dataset table.csv --target x --task regression "
GRAPH = "--nodes 500 --degree 4 --cluster local --dashboard off "
WEIGHTED = GRAPH + "--weight w --edges "
NETWORK = "--estimator network "
RANKS = "--points 600 --cluster local --dashboard off --workers 2 "
BAD: dict[str, dict[str, str]] = {
    "svm_grid": {
        "--dataset minst": "--dataset .*mnist",
        "--dataset none.csv --target y": "none.csv",
        "--dataset one.csv --target z": "--target .*y",
        "--dataset gap.csv --target y --missing refuse": "--missing refuse must have a value in ev",
        "--dataset infinite.csv --target y": "single precision.*-inf",
        "--dataset twice.csv --target y": "two columns are called 'y'",
        "--dataset rare.csv": r"every class.* '26' \(1\), '29' \(1\); .*--rare drop.* merge",
        "--dataset levels.csv": r"50 levels .*'a' \(60\).*--leave-out a.*--category a",
        "--dataset one.csv --category b": "--category must name feature columns .*'b'",
        "--dataset one.csv --target y": "at least two classes",
        "--dataset few.csv --target y": "--folds",
        "--c -1,2": r"--c must be numbers from 1e-30 to 1e\+30 .* got -1; for instance --c 0.1,1",
        "--c 1 --n-c 3": "--c gives the values themselves and excludes --n-c, got 3; leave one",
        "--gamma 1 --log-gamma -3 2": "--gamma gives .* excludes --log-gamma, got -3.0 2.0; leave",
        "--gamma 1 --kernel linear": "--gamma is for kernels that have one, got --kernel linear",
        "--epsilon 0.1": "--epsilon is for a target of numbers, .* got 0.1; .*--task regression",
        "--n-c 0": "--n-c must be at least 1, got 0",
        "--log-gamma -2 -2": "--n-gamma must be 1 where --log-gamma is one value, got 8",
        "--dry-run --dashboard 99999": "--dashboard must be a port, host:port or off, got '99999'",
        DRY + "--results used": "--results must be a new or empty folder, got .*, which holds file",
        DRY + "--results one.csv": "--results must be a folder that can be written, got .*one.csv",
        DRY + "--device gpu": "--device gpu needs a GPU, and this machine has none",
        "--cluster tcp://127.0.0.1:1": "--cluster .*tcp://127.0.0.1:1",
        "--cluster local --workers 1 --device gpu": "--device gpu needs workers with a GPU",
        "--cluster local --solver svm": "--solver must be auto or one of",
        "--scoring f1_marco": r"--scoring .* got 'f1_marco'; did you mean f1_macro\?",
        "--scoring neg_log_loss": "--scoring must work with predictions or decision values, but n",
        "--scoring roc_auc": "--scoring roc_auc cannot score these 10 classes",
        OF_X + "--solver sklearn": "--solver must be auto or path for a target of numbers",
        OF_X + "--probability": "--probability is for classes, and the target is numbers",
        OF_X + "--scoring f1_macro": "--scoring must be one for regression, got f1_macro",
        "--dataset table.csv --target x --task classification": "--target",
        "--resume used": "--resume must be the folder of a run",
        "--pilot nowhere --dry-run": "nowhere",
        "--pilot nowhere": "--pilot needs --dry-run",
        "--features resnet1": r"did you mean resnet18\?",
        "--features resnet18": "fetch https://download.pytorch.org/models/resnet18",
        "--features resnet18 --weights none.pth": "--weights must be a file",
        "--features squeezenet1_0 --weights random": "ends in a linear layer",
        "--features hog --weights random": "hog has none",
        "--features none.npy": r"cannot \(No such file",
        "--weights random": "--weights is for --features of a network",
        "--dataset table.csv --features hog": "--features are of images",
        "predict used table.csv": "RUN must be a run folder",
        "predict used": "a TABLE or --image, one of them",
        "predict used table.csv --image p.png": "a TABLE or --image, one of them",
    },
    "cross_validate": {
        "--estimator forrest": r"--estimator .*did you mean forest\?",
        "--estimator sklearn.forests.Forest": "--estimator must be a class that can",
        "--estimator sklearn.ensemble.RandomForest": r"did you mean sklearn.ensemble.RandomForest",
        "--estimator collections.OrderedDict": "must be a class with fit and get_pa",
        "--estimator sklearn.decomposition.PCA": "must be one for classification",
        "--estimator lasso": "lasso, which is none; .*--task regression",
        "--estimator sklearn.linear_model.Ridge": "one for classification",
        "--estimator knn --param neighbors=3": "--param must name a parameter of knn.*n_neigh",
        "--param n_neighbors=3": "--param must follow the --estimator it is of",
        "--estimator knn --param tree:max_depth=3": "there are knn",
        "--estimator knn --param p": "--param must be NAME=VALUE",
        "--scoring f1_marco": r"did you mean f1_macro\?",
        "--scoring r2": "--scoring must be one for classification",
        "--scoring f1": "--scoring f1 cannot score these 10 classes",
        "--scoring rand_score": "--scoring must be one for classification",
        OF_X + "--scoring accuracy": "--scoring must be one for regression",
        "--dataset table.csv --target colour --task regression": "colour",
        OF_X + "--cv stratified": "--cv must not be stratified",
        OF_X + "--cv group --groups b": "--folds must not exceed the . groups, got 5",
        OF_X + "--cv group --groups c": "--groups|--leave-out",
        "--cv group": "--groups must name the column",
        OF_X + "--groups b": "--groups is for --cv group",
        "--cv group --groups b": "--groups is for a table",
        "--cv stratifeid": "--cv must be one of auto, stratified",
        "--cv mine.py:folds": "--cv must be package.module:NAME",
        "--grid none.yaml": "--grid must be a YAML file that can be",
        "--grid list.yaml": "--grid must hold estimator:",
        "--grid no-values.yaml": "--grid .*no-values.yaml: of knn n_neighbors must have a value",
        "--preprocess autp": "--preprocess must be auto, none or a",
        "--preprocess steps.yaml": "--preprocess must hold a list",
        "--preprocess class.yaml": "classes are transformers that can be made",
        "--dataset table.csv --target b --preprocess none": "--preprocess must not be none for a t",
        "--nested 1": "--nested must be at least 2, got 1",
        "--network cnn": "--network is for --estimator network, got cnn beside logistic, .*add --e",
        NETWORK + "--network resnet81": r"did you mean 'resnet18'\?",
        NETWORK + "--network none.py:Net": "--network must be package.module:NAME or FILE.py",
        NETWORK + "--param network=mlp --network cnn": "--network must not be given beside values",
        OF_X + NETWORK + "--network cnn": "--network cnn needs images, and these rows are a table",
        OF_X + NETWORK + "--network conv": "--network conv needs images, .* use --network mlp",
        OF_X + NETWORK + "--param label_smoothing=0.1": "label_smoothing is for classes",
    },
    "nn_bagging": {
        "--explain 7,x": "--explain must be rows such as 7,18, got 7,x",
        "--explain 360": "--explain must be rows of the test set, 0 to 359, got 360",
        "--image none.png": "--image .*none.png: No such file",
        "--space smal": "--space .*did you mean 'small'",
        "--precision fp16": "--precision",
        "--memory 0": "--memory must be above 0",
        "--n-bootstraps 3": "did you mean --n-bootstrap",
        "--limit 12 --folds 40": "--folds",
        "--strategy grid": "--strategy: invalid choice: 'grid' ",
        "--race-margin 2": "--race-margin goes with --strategy race, got 2 beside",
        "--strategy race --n-tuning 0": "--strategy is of a search, and --n-tuning 0 makes none",
        "--strategy tpe --extend run": "--extend takes fits of candidates .* beside --strategy tpe",
        "--task regression": "--task is for a table of your own, got --dataset digits",
        "--defer-width 3": "--defer-width is for numbers, and the target is classes, got 3.0",
        OF_X + "--defer-width 0": "--defer-width must be above 0 and finite, got 0.0",
        OF_X + "--defer-error 0.1": "--defer-error is for classes, .*--task classification",
        OF_X + "--explain 3": "--explain is for classes, and the target is numbers, got '3'",
        OF_X + "--label-smoothing 0.1": "--label-smoothing is for classes",
        OF_X + "--rare drop": "--rare is for classes, and the target is numbers, got 'drop'",
        OF_X + "--scoring f1_macro": "--scoring must be one for regression, got f1_macro",
        OF_X + "--confidence 0.99": "--confidence must be at most 0.[0-9]+ with [0-9]+ training",
        OF_X + "--image p.png": "--image needs an ensemble of images",
    },
    "pagerank": {
        GRAPH + "--alpha 1": "--alpha must be between 0 and 1, got 1.0",
        GRAPH + "--alpha nan": "--alpha must be between 0 and 1, got nan",
        GRAPH + "--edges none.csv": "--edges must be an existing file",
        GRAPH + "--nodes 3000000000": "--nodes must be at most 2147483647",
        GRAPH + "--nodes 5 --degree 9": "--degree must be at least 1 and below nodes",
        GRAPH + "--tol 0": "--tol or --iterations must be given, got neither",
        GRAPH + "--personalise none.csv": "--personalise must be an existing .csv",
        GRAPH + "--variant pull": "--variant is not an option of this command",
        WEIGHTED + "negative.csv": "--weight must be finite and at least 0, got -3.0",
        WEIGHTED + "nan.csv --distributed --workers 2": "--weight must be finite .* got nan",
        WEIGHTED + "empty.csv": "--edges must hold at least one edge",
    },
    "data_parallel": {
        "--cluster threads": "--cluster must use worker processes",
        RANKS + "--sync always": "--sync must be of every-step, every-k=K, never",
        RANKS + "--sync never=3": "--sync must be of every-step",
        RANKS + "--sync never,average": "--sync must be one strategy",
        RANKS + "--sync never --compare never": "--sync and --compare exclude each other",
        RANKS + "--compare never,never": "--compare must name each strategy once",
        "--network rnn": "--network must be one of approximator, bagging, mlp, cnn",
        "--network none.py:make": "--network must be package.module:NAME or FILE.py",
        "--dataset mnist": "--dataset is for a network that learns from rows",
        RANKS + "--limit 50": "--limit is for a network that learns from rows",
        RANKS + "--momentum 0.5": "--momentum is for --optimizer sgd, got 0.5 with adamw",
        RANKS + "--hidden 5": "--hidden is for --network mlp",
        RANKS + "--channels-last": "--channels-last is for a network with convolutions",
        RANKS + "--ranks 3": "--workers must be at least 3, the ranks .* got 2",
    },
}


@pytest.mark.parametrize(
    ("command", "options", "words"),
    [(command, *case) for command, cases in BAD.items() for case in cases.items()],
)
def test_bad_input_is_one_line_and_status_2(
    command,
    options,
    words,
    tmp_path,
    monkeypatch,
    capsys,
):
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    assert import_module(f"pipelines.{command}").main(options.split()) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{command.replace('_', '-')}: ")
    assert re.search(words, line), line
    if "--distributed" not in options:  # then the workers of a run that has begun read the file
        assert not list(tmp_path.glob("results/*")), "a folder was left behind"


def test_a_folder_that_holds_another_run_is_refused(tmp_path, capsys):
    from pipelines.svm_grid import main

    folder = tmp_path / "run"
    words = ["--limit", "100", "--n-c", "1", "--n-gamma", "1", "--cluster", "threads", "--results"]
    assert main([*words, str(folder)]) == 0
    assert main([*words, str(folder)]) == 2
    assert f"but {folder} already holds a run; continue it with --resume" in capsys.readouterr().err
    assert main(["--resume", str(folder), "--n-c", "4"]) == 2
    assert f"--n-c must stay 1 when resuming {folder}, got 4" in capsys.readouterr().err


def test_changed_data_are_refused(tmp_path, capsys):
    from pipelines.svm_grid import main

    path, rows = tmp_path / "t.csv", [f"{i % 7},{i % 3},{i % 2}" for i in range(60)]
    path.write_text("a,b,y\n" + "\n".join(rows))
    folder, grid = str(tmp_path / "run"), "--n-c 1 --n-gamma 1 --folds 2 --cluster threads"
    data = ["--dataset", str(path), "--target", "y"]
    assert main([*data, *grid.split(), "--results", folder]) == 0
    path.write_text("a,b,y\n" + "\n".join(["9,9,0", *rows[1:]]))
    assert main(["--resume", folder]) == 2
    assert "needs the data of the original run, but t.csv has changed;" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "module", "words"),
    [
        ("nn_bagging", "nn.settings", "need torch.*nn"),
        ("nn_bagging --strategy tpe", "search.strategies.tpe", "--strategy tpe needs Optuna.*tpe"),
        ("svm_grid --features hog", "nn.features", "scikit-image"),
    ],
)
def test_a_package_that_is_missing_is_one_line(
    command,
    module,
    words,
    tmp_path,
    monkeypatch,
    capsys,
):
    def find_spec(name):
        return None

    monkeypatch.setattr(f"pipelines.{module}.find_spec", find_spec)
    command, *arguments = command.split()
    main = import_module(f"pipelines.{command}").main
    assert main([*arguments, "--results", str(tmp_path / "r")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert re.search(words, line), line
    assert not (tmp_path / "r").exists()
