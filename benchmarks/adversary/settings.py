"""Options, YAML files, modules of the user's and folders of images."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image

from benchmarks.adversary.case import Case, Sandbox
from benchmarks.adversary.figures import difference, inconsistency
from benchmarks.adversary.tables import CV, HERE, SVM

DIGITS = ["--limit", "200", *HERE]
CLASSES = ("ant", "bee", "cat")
NETS = ["nn_bagging", "--n-bootstrap", "2", "--n-tuning", "1", "--max-epochs", "2", *DIGITS]
TRAIN = [
    "data_parallel",
    "--points",
    "300",
    "--epochs",
    "2",
    "--cluster",
    "threads",
    "--workers",
    "1",
    "--quiet",
]
Build = Callable[[Sandbox], Case]


def _options(
    base: list[str],
    *words: str,
    refusal: str = "may",
    names: bool = True,
    twin: list[str] | None = None,
    extra_check: Callable[[Path], str] | None = None,
) -> Build:
    """Options added to a command; ``twin``: options that mean the same."""

    def build(sandbox: Sandbox) -> Case:
        kept = [word.replace("HERE", str(sandbox.folder)) for word in words]
        argv = [*base, *kept, "--results", str(sandbox.out)]
        flags = tuple(word.split("=")[0] for word in words if word.startswith("--"))

        def check(output: str) -> str:
            if "--dry-run" in words or not (sandbox.out / "run.json").exists():
                return "" if "--dry-run" in words else "exit status 0 without a run"
            wrong = inconsistency(sandbox.out) or (extra_check(sandbox.out) if extra_check else "")
            if not wrong and twin is not None:
                wrong = difference(sandbox.out, sandbox.twin([*base, *twin]))
            return wrong

        return Case(argv, check, refusal, flags if names else ())

    return build


def _refused(base: list[str], *lines: str) -> dict[str, Build]:
    return {f"{base[0]} {line}": _options(base, *line.split("|"), refusal="must") for line in lines}


def _cells(n: int) -> Callable[[Path], str]:
    def check(run: Path) -> str:
        cells = pd.read_parquet(run / "cv_results.parquet")
        n_cells = len(cells[cells["stage"] == "search"])
        return "" if n_cells == n else f"{n_cells} cells, not {n}"

    return check


S, K = [*SVM, *DIGITS], [*CV, *DIGITS]
BARE = ["cross_validate", "--folds", "3", *DIGITS]
OPTIONS: dict[str, Build] = {
    **_refused(
        S,
        "--limit|0",
        "--limit|-5",
        "--limit|1e3",
        "--limit|2.5",
        "--limit|ten",
        "--limit|3",
        "--folds|1",
        "--folds|-3",
        "--folds|100000",
        "--folds|2.0",
        "--n-c|0",
        "--n-gamma|-1",
        "--log-c|nan|1",
        "--log-c|0|inf",
        "--log-c|0|400",
        "--log-gamma|-400|0",
        "--log-gamma|1",
        "--tol|0",
        "--tol|nan",
        "--tol|-1",
        "--tol|inf",
        "--max-iter|0",
        "--max-iter|-2",
        "--memory|0",
        "--memory|nan",
        "--memory|-4",
        "--degree|-1",
        "--kernel|poly|--degree|1.5",
        "--kernel|poly|--coef0|nan",
        "--kernel|rBf",
        "--seed|-1",
        "--seed|1.5",
        "--seed|x",
        "--scoring|roc_auc",
        "--scoring|r2",
        "--scoring|nonsense",
        "--scoring|",
        "--nested|1",
        "--nested|5000",
        "--cv|repeated|--repeats|0",
        "--cv|nonsense",
        "--cv|group",
        "--workers|0",
        "--workers|-1",
        "--workers|two",
        "--adaptive|3|1",
        "--cluster|nonsense",
        "--cluster|tls://127.0.0.1:1",
        "--device|gpu",
        "--dashboard|99999",
        "--rmm-pool|-1GB",
        "--test-size|nan",
        "--extend|HERE/none",
        "--pilot|HERE/none",
        "--class-weight|heavy",
        "--target|x",
        "--groups|x",
        "--log-epsilon|0|1|2",
        "--features|HERE/none.npy",
        "--no-such-option",
        "--weights|HERE/none",
    ),
    **_refused(
        K,
        "--rope|-1",
        "--rope|nan",
        "--param|n_neighbors",
        "--param|n_neighbors=",
        "--param|=1",
        "--param|bogus=1",
        "--estimator|nonsense",
        "--estimator|os.path",
        "--estimator|sklearn.nope.Nope",
        "--estimator|json.JSONDecoder",
        "--estimator|..knn",
        "--preprocess|none-such",
        "--scoring|accuracy|nonsense",
        "--learning-curve|yes",
        "--repeats|2.5",
    ),
    **_refused(
        NETS,
        "--n-bootstrap|0",
        "--n-tuning|-1",
        "--confidence|0",
        "--confidence|1.5",
        "--defer-error|0",
        "--defer-error|nan",
        "--batch-size|0",
        "--label-smoothing|1",
        "--weight-decay|-1",
        "--max-epochs|0",
        "--patience|0",
        "--network|nonsense",
        "--explain|999999",
        "--explain|-1",
        "--augment|nonsense",
        "--precision|fp8",
    ),
    **_refused(
        TRAIN,
        "--epochs|0",
        "--batch-size|-1",
        "--validation|0",
        "--validation|1",
        "--learning-rate|nan",
        "--learning-rate|-1",
        "--momentum|nan",
        "--sync|every-k=0",
        "--sync|average=x",
        "--ranks|0",
        "--ranks|9",
        "--compare|never,never",
        "--hidden|0",
        "--points|1",
        "--until-loss|nan",
        "--warm-up|-1",
        "--checkpoint-seconds|nan",
        "--repeats|0",
        "--patience|-1",
    ),
    "log-c reversed": _options(S, "--log-c", "3", "-1", twin=["--log-c", "-1", "3"]),
    "log-c of one point": _options(S, "--log-c", "1", "1"),
    "log-c written with exponents": _options(
        S, "--log-c=-1e0", "3E0", refusal="may", twin=["--log-c", "-1", "3"]
    ),
    "an option twice": _options(S, "--folds", "4", "--folds", "3", twin=[]),
    "options cut short": _options(S, "--fold", "4", twin=["--folds", "4"]),
    "n-c 1": _options(S, "--n-c", "1", extra_check=_cells(6)),
    "repeated without repeats": _options(
        S, "--cv", "repeated", "--repeats", "2", extra_check=_cells(36)
    ),
    "repeats without repeated": _options(S, "--repeats", "9", twin=[]),
    "limit above all": _options(
        ["svm_grid", "--n-c", "2", "--n-gamma", "1", "--folds", "2", *HERE],
        "--limit",
        "99999",
        twin=[],
    ),
    "limit of full-width digits": _options(S, "--limit", "２００", twin=[]),
    "limit with underscore": _options(S, "--limit", "2_00", twin=[]),
    "limit with a plus": _options(S, "--limit", "+200", twin=[]),
    "seed of 2^32": _options(S, "--seed", str(2**32)),
    "seed of 2^64": _options(S, "--seed", str(2**64)),
    "seed of 2^200": _options(S, "--seed", str(2**200)),
    "tol of 1": _options(S, "--tol", "1.0"),
    "tol of 1e-300": _options(S, "--tol", "1e-300"),
    "one iteration": _options(S, "--max-iter", "1"),
    "memory of a byte": _options(S, "--memory", "1e-9", twin=[]),
    "memory of 1e9": _options(S, "--memory", "1e9", twin=[]),
    "memory infinite": _options(S, "--memory", "inf", twin=[]),
    "degree 0": _options(S, "--kernel", "poly", "--degree", "0"),
    "degree 400": _options(S, "--kernel", "poly", "--degree", "400"),
    "coef0 of 1e300": _options(S, "--kernel", "poly", "--coef0", "1e300"),
    "sigmoid, coef0 of 1e9": _options(S, "--kernel", "sigmoid", "--coef0", "1e9"),
    "linear, two gamma": _options(S, "--kernel", "linear"),
    "degree of rbf": _options(S, "--degree", "5", twin=[]),
    "tiny gamma": _options(S, "--log-gamma", "-300", "-200"),
    "large gamma": _options(S, "--log-gamma", "100", "300"),
    "large C": _options(S, "--log-c", "10", "30"),
    "tiny C": _options(S, "--log-c", "-300", "-100"),
    "ovr, balanced, nested": _options(
        S, "--decision", "ovr", "--class-weight", "balanced", "--nested", "2"
    ),
    "probability of rare": _options(S, "--probability", "--folds", "2"),
    "scoring of losses": _options(S, "--scoring", "neg_log_loss"),
    "scoring matthews": _options(S, "--scoring", "matthews_corrcoef"),
    "time folds": _options(S, "--cv", "time"),
    "workers 500": _options(S, "--workers", "500", twin=[]),
    "rows of digits by target": _options(S, "--target", "3"),
    "threads and dashboard": _options(S, "--dashboard", "0"),
    "quiet and dry": _options(S, "--dry-run"),
    "a page of Dask": _options(S, "--performance-report"),
    "the same value twice": _options(BARE, "--estimator", "knn", "--param", "n_neighbors=3,3,3"),
    "the same estimator twice": _options(BARE, "--estimator", "knn", "knn"),
    "k of 0": _options(BARE, "--estimator", "knn", "--param", "n_neighbors=0,3"),
    "k of halves": _options(BARE, "--estimator", "knn", "--param", "n_neighbors=1.5,3"),
    "k above the rows": _options(BARE, "--estimator", "knn", "--param", "n_neighbors=1,500"),
    "all k above the rows": _options(
        BARE, "--estimator", "knn", "--param", "n_neighbors=500", refusal="must", names=False
    ),
    "weights unknown": _options(BARE, "--estimator", "knn", "--param", "weights=uniform,bogus"),
    "text of a number": _options(BARE, "--estimator", "tree", "--param", "max_depth=three"),
    "none": _options(BARE, "--estimator", "tree", "--param", "max_depth=None,none,NONE"),
    "true and 1": _options(BARE, "--estimator", "knn", "--param", "n_neighbors=true,1"),
    "a nested tuple": _options(
        BARE, "--estimator", "mlp", "--param", "hidden_layer_sizes=(5,),(4,3)", "max_iter=20"
    ),
    "an open bracket": _options(
        BARE, "--estimator", "mlp", "--param", "hidden_layer_sizes=(5,", refusal="must"
    ),
    "infinite alpha": _options(BARE, "--estimator", "ridge", "--param", "alpha=inf,nan,1"),
    "regressor on classes": _options(BARE, "--estimator", "sklearn.linear_model.Lasso"),
    "a transformer": _options(BARE, "--estimator", "sklearn.decomposition.PCA"),
    "a clusterer": _options(BARE, "--estimator", "sklearn.cluster.KMeans"),
    "a meta-estimator": _options(
        BARE, "--estimator", "sklearn.ensemble.VotingClassifier", refusal="must"
    ),
    "an isolation forest": _options(BARE, "--estimator", "sklearn.ensemble.IsolationForest"),
    "n_jobs of -1": _options(
        BARE, "--estimator", "forest", "--param", "n_jobs=-1", "n_estimators=3"
    ),
    "random_state none": _options(
        BARE, "--estimator", "forest", "--param", "random_state=none,1", "n_estimators=3"
    ),
    "warm start": _options(
        BARE, "--estimator", "forest", "--param", "warm_start=true", "n_estimators=3,6"
    ),
    "two scorers alike": _options(BARE, "--estimator", "knn", "--scoring", "accuracy", "accuracy"),
    "scorers of two kinds": _options(BARE, "--estimator", "knn", "--scoring", "accuracy", "r2"),
    "nested and curve": _options(BARE, "--estimator", "knn", "--nested", "2", "--learning-curve"),
    "task regression of digits": _options(BARE, "--estimator", "ridge", "--task", "regression"),
}


def _grid(content: str | bytes, refusal: str = "may", twin: list[str] | None = None) -> Build:
    def build(sandbox: Sandbox) -> Case:
        path = sandbox.write("grid.yaml", content)
        argv = [*BARE, "--grid", str(path), "--results", str(sandbox.out)]

        def check(output: str) -> str:
            wrong = inconsistency(sandbox.out)
            return wrong or (difference(sandbox.out, sandbox.twin([*BARE, *twin])) if twin else "")

        return Case(argv, check, refusal)

    return build


def _yaml(option: str, base: list[str], content: str | bytes, refusal: str = "may") -> Build:
    def build(sandbox: Sandbox) -> Case:
        path = sandbox.write("mine.yaml", content)
        argv = [*base, option, str(path), "--results", str(sandbox.out)]
        return Case(
            argv,
            None if "--dry-run" in base else lambda output: inconsistency(sandbox.out),
            refusal,
        )

    return build


KNN = ["--estimator", "knn", "--param", "n_neighbors=1,3"]
SLURM = [*S, "--dry-run"]
YAML: dict[str, Build] = {
    "grid, with a mark": _grid(b"\xef\xbb\xbfknn: {n_neighbors: [1, 3]}\n", twin=KNN),
    "grid of utf-16": _grid("knn: {n_neighbors: [1, 3]}\n".encode("utf-16"), twin=KNN),
    "grid of JSON": _grid(json.dumps({"knn": {"n_neighbors": [1, 3]}}), twin=KNN),
    "grid of an anchor": _grid("x: &k [1, 3]\nknn: {n_neighbors: *k}\n"),
    "grid of a merge": _grid("knn: {<<: {n_neighbors: [1, 3]}}\n", twin=KNN),
    "grid, key twice": _grid("knn: {n_neighbors: [1, 3]}\nknn: {n_neighbors: [9]}\n", "must"),
    "grid, parameter twice": _grid("knn: {n_neighbors: [1, 3], n_neighbors: [9]}\n", "must"),
    "grid of two documents": _grid(
        "knn: {n_neighbors: [1]}\n---\nknn: {n_neighbors: [3]}\n", "must"
    ),
    "grid of a scalar": _grid(
        "knn: {n_neighbors: 3}\n", twin=["--estimator", "knn", "--param", "n_neighbors=3"]
    ),
    "grid of yes": _grid("knn: {weights: [yes, no]}\n"),
    "grid of octal": _grid("knn: {n_neighbors: [010]}\n"),
    "grid of sexagesimal": _grid("knn: {n_neighbors: [1:30]}\n"),
    "grid of dates": _grid("knn: {n_neighbors: [2020-01-01]}\n"),
    "grid of exponents without point": _grid(
        "svm: {C: [1e3, 1e-3]}\n", twin=["--estimator", "svm", "--param", "C=1000,0.001"]
    ),
    "grid of .inf": _grid("svm: {C: [.inf]}\n"),
    "grid of .nan": _grid("svm: {C: [.nan, 1]}\n"),
    "grid of null": _grid("knn:\n"),
    "grid of null values": _grid("knn: {n_neighbors: }\n"),
    "grid of an empty list": _grid("knn: {n_neighbors: []}\n", "must"),
    "grid of mappings": _grid("knn: {n_neighbors: [{a: 1}]}\n"),
    "grid of a python tag": _grid("knn: !!python/object/apply:os.system ['true']\n", "must"),
    "grid of a billion laughs": _grid(
        "a: &a [1,1,1,1,1,1,1,1,1]\n"
        + "".join(
            f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n"
            for i in range(9)
        )
    ),
    "grid of itself": _grid("knn: &k {n_neighbors: *k}\n", "must"),
    "grid of tabs": _grid("knn:\n\tn_neighbors: [1]\n", "must"),
    "grid of a number": _grid("3: {a: [1]}\n", "must"),
    "grid of a set": _grid("knn: {n_neighbors: !!set {1, 3}}\n"),
    "grid of binary": _grid("knn: {weights: [!!binary aGk=]}\n"),
    "grid of NUL": _grid(b"knn: {n_neighbors: [1, 3]}\0\n"),
    "grid of a list": _grid("- knn: {n_neighbors: [1, 3]}\n"),
    "preprocess of nothing": _yaml("--preprocess", K, "[]"),
    "preprocess twice the same": _yaml(
        "--preprocess",
        K,
        "- sklearn.preprocessing.StandardScaler\n- sklearn.preprocessing.StandardScaler\n",
    ),
    "preprocess of a mapping": _yaml(
        "--preprocess", K, "a: sklearn.preprocessing.StandardScaler\n"
    ),
    "preprocess of a classifier": _yaml("--preprocess", K, "- sklearn.svm.SVC\n", "must"),
    "preprocess of a function": _yaml("--preprocess", K, "- os.getcwd\n", "must"),
    "preprocess of a bad parameter": _yaml(
        "--preprocess", K, "- sklearn.decomposition.PCA: {n_components: 5000}\n", "must"
    ),
    "preprocess that drops all": _yaml(
        "--preprocess",
        K,
        "- sklearn.feature_selection.VarianceThreshold: {threshold: 1.0e9}\n",
        "must",
    ),
    "space of nothing": _yaml("--space", NETS, "{}"),
    "space of a list": _yaml("--space", NETS, "[1]", "must"),
    "space of nonsense": _yaml("--space", NETS, "layers: [1, 2]\n", "must"),
    "space of text": _yaml("--space", NETS, "small", "must"),
    "space of NaN": _yaml("--space", NETS, "learning_rate: [.nan]\n", "must"),
    "profile of nothing": _yaml("--profile", [*SLURM, "--cluster", "slurm"], ""),
    "profile, walltime sexagesimal": _yaml(
        "--profile", [*SLURM, "--cluster", "slurm"], "queue: slurm\nwalltime: 1:30:00\n"
    ),
    "profile, negative workers": _yaml(
        "--profile", [*SLURM, "--cluster", "slurm"], "queue: slurm\nworkers: -3\n", "must"
    ),
    "profile, memory of nonsense": _yaml(
        "--profile", [*SLURM, "--cluster", "slurm"], "queue: slurm\nmemory: lots\n", "must"
    ),
    "profile on itself": _yaml(
        "--profile", [*SLURM, "--cluster", "slurm"], "base: mine.yaml\n", "must"
    ),
    "profile, unknown key": _yaml(
        "--profile", [*SLURM, "--cluster", "slurm"], "queue: slurm\ncoures: 3\n", "must"
    ),
    "profile, cores of truth": _yaml(
        "--profile", [*SLURM, "--cluster", "slurm"], "queue: slurm\ncores: yes\n", "must"
    ),
    "profile, prologue of a mapping": _yaml(
        "--profile", [*SLURM, "--cluster", "slurm"], "queue: slurm\nprologue: {a: 1}\n", "must"
    ),
    "profile, line break in account": _yaml(
        "--profile",
        [*SLURM, "--cluster", "slurm"],
        'queue: slurm\naccount: "a\\n#SBATCH --wrap=id"\n',
        "must",
    ),
}


def _module(option: str, name: str, body: str, base: list[str], refusal: str = "may") -> Build:
    def build(sandbox: Sandbox) -> Case:
        path = sandbox.write("mine.py", body)
        argv = [*base, option, f"{path}:{name}", "--results", str(sandbox.out)]
        return Case(argv, lambda output: inconsistency(sandbox.out), refusal)

    return build


def _folds(body: str, refusal: str = "may") -> Build:
    return _module("--cv", "split", "import numpy as np\n" + body, K, refusal)


def _network(body: str, refusal: str = "may", base: list[str] | None = None) -> Build:
    head = "import torch\nfrom torch import nn\n"
    return _module("--network", "Net", head + body, base or NETS, refusal)


SPLIT = "def split(X, y, groups):\n    n = len(X)\n    r = np.arange(n)\n"
TRUE_NET = """class Net(nn.Module):
    def __init__(self, n_classes=10):
        super().__init__()
        self.f = nn.Linear(64, n_classes)

    def forward(self, x):
        return """
SHARED_NET = """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = self.b = nn.Linear(64, 10)

    def forward(self, x):
        return self.a(x.flatten(1)) + self.b(x.flatten(1))
"""
OBJECTS: dict[str, Build] = {
    "folds of lists": _folds(SPLIT + "    return [(list(r[::2]), list(r[1::2]))]\n"),
    "folds of masks": _folds(SPLIT + "    return [(r % 2 == 0, r % 2 == 1)] * 2\n"),
    "folds of floats": _folds(SPLIT + "    return [(r[::2] * 1.0, r[1::2] * 1.0)]\n"),
    "folds of negative rows": _folds(SPLIT + "    return [(-r[1:50], r[100:150])]\n"),
    "folds beyond the end": _folds(SPLIT + "    return [(r[:50], r[50:] + 1)]\n", "must"),
    "folds that overlap": _folds(SPLIT + "    return [(r, r[:50])]\n"),
    "folds with rows twice": _folds(SPLIT + "    return [(r[:100], np.r_[r[100:], r[100:]])]\n"),
    "folds of nothing": _folds(SPLIT + "    return []\n", "must"),
    "folds of None": _folds(SPLIT + "    return None\n", "must"),
    "folds, empty validation": _folds(SPLIT + "    return [(r, r[:0])]\n", "must"),
    "folds, empty training": _folds(SPLIT + "    return [(r[:0], r)]\n", "must"),
    "folds by random": _folds(
        SPLIT + "    p = np.random.permutation(n)\n    return [(p[50:], p[:50])]\n"
    ),
    "folds of a generator that raises": _folds(
        SPLIT + "    yield r[50:], r[:50]\n    raise KeyError('half')\n", "must"
    ),
    "folds that change X": _folds(
        SPLIT + "    X *= 0\n    return [(r[50:], r[:50]), (r[:150], r[150:])]\n"
    ),
    "folds that change y": _folds(
        SPLIT + "    y[:] = y[::-1]\n    return [(r[50:], r[:50]), (r[:150], r[150:])]\n"
    ),
    "folds that print": _folds(SPLIT + "    print('x' * 100)\n    return [(r[50:], r[:50])]\n"),
    "folds of a class": _folds(
        "class split:\n    def __init__(self, X, y, groups): pass\n", "must"
    ),
    "folds of a splitter": _folds(
        "from sklearn.model_selection import KFold\ndef split(X, y, groups):\n    return KFold(3)\n"
    ),
    "folds of three": _folds(SPLIT + "    return [(r[:50], r[50:100], r[100:])]\n", "must"),
    "folds without end": _folds(SPLIT + "    while True:\n        yield r[50:], r[:50]\n", "must"),
    "folds that exit": _folds(SPLIT + "    import os\n    os._exit(0)\n", "must"),
    "folds that close stdout": _folds(
        SPLIT + "    import sys\n    sys.stdout.close()\n    return [(r[50:], r[:50])]\n"
    ),
    "folds that leave": _folds(
        SPLIT + "    import os\n    os.chdir('/')\n    return [(r[50:], r[:50])]\n"
    ),
    "folds that recurse": _folds(
        "def split(X, y, groups):\n    return split(X, y, groups)\n", "must"
    ),
    "folds, KeyboardInterrupt": _folds("def split(X, y, groups):\n    raise KeyboardInterrupt\n"),
    "folds, an error of lines": _folds(
        "def split(X, y, groups):\n    raise ValueError('a\\nb\\nc')\n", "must"
    ),
    "module of syntax errors": _folds("def split(:\n", "must"),
    "module of tabs and latin-1": _folds(
        "# -*- coding: latin-1 -*-\n" + SPLIT + "    return [(r[50:], r[:50])]\n"
    ),
    "module that shadows json": _folds(
        "import sys\nsys.modules['json'] = None\n" + SPLIT + "    return [(r[50:], r[:50])]\n"
    ),
    "module that forks": _folds(
        "import os\n"
        + SPLIT
        + "    if os.fork() == 0: os._exit(0)\n    return [(r[50:], r[:50])]\n"
    ),
    "network, NaN": _network(TRUE_NET + "self.f(x.flatten(1)) * float('nan')\n"),
    "network, too few outputs": _network(
        TRUE_NET.replace("n_classes)", "3)") + "self.f(x.flatten(1))\n", "must"
    ),
    "network, too many outputs": _network(
        TRUE_NET.replace("n_classes)", "30)") + "self.f(x.flatten(1))\n", "must"
    ),
    "network, tuple": _network(TRUE_NET + "(self.f(x.flatten(1)), x)\n", "must"),
    "network, doubles": _network(TRUE_NET + "self.f(x.flatten(1)).double()\n"),
    "network, constant": _network(TRUE_NET + "torch.zeros(len(x), 10, requires_grad=True)\n"),
    "network, no parameters": _network(
        "class Net(nn.Module):\n    def forward(self, x):\n        return x.flatten(1)[:, :10]\n"
    ),
    "network, of a lambda": _network(
        "Net = lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 10))\n"
    ),
    "network, in place": _network(TRUE_NET + "self.f(x.flatten(1).mul_(0.5))\n"),
    "network, batch norm": _network(
        "def Net():\n"
        "    return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, 10))\n"
    ),
    "network, lazy": _network(
        "def Net():\n    return nn.Sequential(nn.Flatten(), nn.LazyLinear(10))\n"
    ),
    "network, an instance": _network("Net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))\n"),
    "network, dropped rows": _network(TRUE_NET + "self.f(x.flatten(1))[:-1]\n", "must"),
    "network, meta device": _network(
        "def Net():\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10, device='meta'))\n",
        "must",
    ),
    "network, shared weights": _network(SHARED_NET),
}


def _images(
    change: Callable[[Path, Any], object],
    *options: str,
    refusal: str = "may",
    same: bool = True,
    rows: int = 0,
) -> Build:
    """A folder of 3 x 16 images; ``change`` spoils it without changing what it means."""

    def build(sandbox: Sandbox) -> Case:
        words = [*CV, *HERE, "--image-size", "12", *options]
        for name in ("mine", "twin"):
            rng = np.random.default_rng(sandbox.seed)
            for k, kind in enumerate(CLASSES):
                (sandbox.folder / name / kind).mkdir(parents=True)
                for i in range(16):
                    pixels = np.clip(rng.normal(60 + 50 * k, 40, (12, 12, 3)), 0, 255).astype(
                        np.uint8
                    )
                    Image.fromarray(pixels).save(sandbox.folder / name / kind / f"{i:02d}.png")
        change(sandbox.folder / "mine", sandbox.random)
        cache = ["--data-dir", str(sandbox.folder / "data")]
        argv = [
            *words,
            *cache,
            "--dataset",
            str(sandbox.folder / "mine"),
            "--results",
            str(sandbox.out),
        ]

        def check(output: str) -> str:
            wrong = inconsistency(sandbox.out)
            if wrong or not same:
                return wrong
            files = sorted((sandbox.folder / "twin").rglob("*.png"))
            other = sandbox.twin([*words, *cache, "--dataset", sandbox.folder / "twin"], *files)
            return difference(sandbox.out, other, rows)

        return Case(argv, check, refusal)

    return build


def _every_image(
    change: Callable[[Any], Any], suffix: str, **keywords: Any
) -> Callable[[Path, Any], object]:
    def spoil(folder: Path, random: Any) -> None:
        for path in sorted(folder.rglob("*.png")):
            image = change(Image.open(path))
            path.unlink()
            image.save(path.with_suffix(suffix), **keywords)

    return spoil


def _random_image(change: Callable[[Path, Any], object]) -> Callable[[Path, Any], object]:
    return lambda folder, random: change(random.choice(sorted(folder.rglob("*.png"))), random)


def _linked(path: Path, random: Any) -> None:
    away = path.parents[2] / "away.png"
    path.rename(away)
    path.symlink_to(away)


def _into(folder: str, moves: dict[str, str]) -> Callable[[Path, Any], None]:
    """A new folder, and what is moved to it or to others."""

    def change(root: Path, random: Any) -> None:
        (root / folder).mkdir()
        for old, new in moves.items():
            (root / new).parent.mkdir(exist_ok=True)
            (root / old).rename(root / new)

    return change


def _turned(image: Any) -> Any:
    """Stored on its side, with the tag that says so."""
    image = image.transpose(Image.Transpose.ROTATE_90)
    image.getexif()[274] = 6
    return image


def _saved(image: Any, path: Path, **keywords: Any) -> None:
    buffer = io.BytesIO()
    image.save(buffer, path.suffix[1:].upper(), **keywords)
    path.write_bytes(buffer.getvalue())


IMAGES: dict[str, Build] = {
    "BMP": _images(_every_image(lambda i: i, ".bmp")),
    "TIFF, LZW": _images(_every_image(lambda i: i, ".tiff", compression="tiff_lzw")),
    "WebP, lossless": _images(_every_image(lambda i: i, ".webp", lossless=True)),
    "PPM": _images(_every_image(lambda i: i, ".ppm")),
    "interlaced": _images(_every_image(lambda i: i, ".png", optimize=True)),
    "opaque alpha": _images(_every_image(lambda i: i.convert("RGBA"), ".png")),
    "suffix in capitals": _images(_every_image(lambda i: i, ".PNG")),
    "PNG called JPG": _images(
        lambda f, r: [p.rename(p.with_suffix(".jpg")) for p in sorted(f.rglob("*.png"))]
    ),
    "hidden files": _images(
        lambda f, r: (
            [
                (p / n).write_bytes(b"x")
                for p in f.iterdir()
                for n in (".DS_Store", "Thumbs.db", "._00.png")
            ]
        )
    ),
    "an empty class": _images(lambda f, r: (f / "dog").mkdir()),
    "a text among": _images(lambda f, r: (f / "ant" / "README.txt").write_text("hi")),
    "links to images": _images(_random_image(_linked)),
    "a dead link": _images(lambda f, r: (f / "ant" / "z.png").symlink_to("/nowhere.png")),
    "a link to its parent": _images(lambda f, r: (f / "ant" / "up").symlink_to(f)),
    "cut short": _images(
        _random_image(lambda p, r: p.write_bytes(p.read_bytes()[: -r.randrange(15, 200)])),
        refusal="must",
    ),
    "empty": _images(_random_image(lambda p, r: p.write_bytes(b"")), refusal="must"),
    "a bit changed": _images(
        _random_image(
            lambda p, r: p.write_bytes(
                p.read_bytes()[:60] + bytes([p.read_bytes()[60] ^ 8]) + p.read_bytes()[61:]
            )
        ),
        refusal="must",
    ),
    "of 60,000 x 60,000": _images(
        _random_image(
            lambda p, r: p.write_bytes(
                p.read_bytes()[:16] + (60000).to_bytes(4, "big") * 2 + p.read_bytes()[24:]
            )
        ),
        refusal="must",
    ),
    "class of a line break": _images(lambda f, r: (f / "ant").rename(f / "a\nt")),
    "class of bytes": _images(lambda f, r: (f / "ant").rename(f / "an\udce9")),
    "class of markup": _images(lambda f, r: (f / "ant").rename(f / "<b>&a")),
    "classes nested deeper": _images(_into("bee/sub", {"bee/00.png": "bee/sub/00.png"})),
    "train without test": _images(_into("train", {k: f"train/{k}" for k in CLASSES})),
    "a class in test alone": _images(
        _into("train", {"ant": "train/ant", "bee": "train/bee", "cat": "test/cat"}), same=False
    ),
    "one of another size": _images(
        _random_image(lambda p, r: _saved(Image.open(p).resize((48, 48), 0), p)),
        rows=1,
    ),
    "turned by a tag": _images(
        _random_image(lambda p, r: _saved(i := _turned(Image.open(p)), p, exif=i.getexif()))
    ),
    "a frame more": _images(_every_image(lambda i: i, ".tiff", save_all=True, append_images=[])),
    "image-size 0": _images(lambda f, r: None, "--image-size", "0", refusal="must"),
    "image-size 100000": _images(lambda f, r: None, "--image-size", "100000", same=False),
    "gray, twice": _images(lambda f, r: None, "--gray", "--gray", same=False),
    "features of too few rows": _images(
        lambda f, r: np.save(f.parent / "f.npy", np.eye(5)), "--features", "f.npy", refusal="must"
    ),
    "features of NaN": _images(
        lambda f, r: np.save(f.parent / "f.npy", np.full((48, 3), np.nan)),
        "--features",
        "f.npy",
        refusal="must",
    ),
    "features of objects": _images(
        lambda f, r: np.save(f.parent / "f.npy", np.array([None] * 48)),
        "--features",
        "f.npy",
        refusal="must",
    ),
    "features, one dimension": _images(
        lambda f, r: np.save(f.parent / "f.npy", np.arange(48.0)), "--features", "f.npy", same=False
    ),
    "features of complex": _images(
        lambda f, r: np.save(f.parent / "f.npy", np.eye(48) + 1j),
        "--features",
        "f.npy",
        refusal="must",
    ),
    "features shifted by 1e9": _images(
        lambda f, r: _features(f), "--features", "f.npy", same=False
    ),
}


def _features(folder: Path) -> None:
    np.save(folder.parent / "f.npy", np.repeat(np.arange(3), 16)[:, None] + 1e9 + np.zeros((48, 2)))
