"""What decides results enters a run by content: files, code with what it imports, packages."""

from __future__ import annotations

import dataclasses
import importlib
import json
import shutil
import sys
from importlib import metadata
from pathlib import Path

import pytest

from pipelines.data import user_code
from pipelines.errors import InputError
from pipelines.run import identity
from tests.command_runs import ON_THREADS, record

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "tests" / "run_folder" / "kept"
FOLDS = "from sizes import N\nfrom sklearn.model_selection import KFold\ndef folds(X, y, groups):\n"
FOLDS += "    return KFold(N, shuffle=True, random_state=0)\n"
SMALL = ["--limit", "150", *ON_THREADS, "--quiet"]


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A folder with a function that makes folds, which imports its neighbour."""
    (tmp_path / "mine.py").write_text(FOLDS)
    (tmp_path / "sizes.py").write_text("N = 3\n")
    (tmp_path / "unrelated.py").write_text("N = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in ("sizes", "own_estimator"):
        sys.modules.pop(name, None)


def stopped(command, folder, *options):
    """A run that has everything to do but its page, and the words that resume it."""
    main = importlib.import_module(f"pipelines.{command}").main
    assert main([*SMALL, *options, "--results", str(folder)]) == 0
    about = record(folder)
    about |= {"status": "stopped", "files": {}}
    (folder / "run.json").write_text(json.dumps(about))
    return folder, ["--resume", str(folder), "--quiet"]


def refused(command, words, capsys):
    capsys.readouterr()
    assert importlib.import_module(f"pipelines.{command}").main(words) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert ("--accept-changed" in message) is ("--space" not in message)
    return message


def test_a_function_is_its_source_and_what_it_imports_beside_it(mine, capsys):
    from pipelines.svm_grid import main

    cv = ["--cv", f"{mine}/mine.py:folds"]
    run, again = stopped("svm_grid", mine / "run", "--n-c", "2", "--n-gamma", "1", *cv)
    digests = record(run)["identity"]["inputs"]["cv"]
    assert set(digests) == {"mine.py", "sizes.py"}
    (mine / "unrelated.py").write_text("N = 4\n")
    assert main([*again, *cv]) == 0
    stop(run)
    (mine / "sizes.py").write_text("N = 3  # still\n")
    message = refused("svm_grid", [*again, *cv], capsys)
    now = identity.digest_of(mine / "sizes.py")
    assert f"sizes.py of --cv was {digests['sizes.py'][:12]}… and is {now[:12]}…" in message
    assert main([*again, *cv, "--accept-changed"]) == 0
    (accepted,) = record(run)["accepted"]
    assert accepted["changed"] == {
        "sizes.py of --cv": [f"{digests['sizes.py'][:12]}…", f"{now[:12]}…"]
    }
    assert "sizes.py of --cv was" in (run / "report.html").read_text()
    stop(run)
    assert main([*again, *cv]) == 0, "what was accepted is what it goes by now"


def stop(run):
    (run / "run.json").write_text(json.dumps(record(run) | {"status": "stopped", "files": {}}))


@pytest.mark.parametrize(
    ("command", "option", "before", "after", "extra_options"),
    [
        (
            "cross_validate",
            "preprocess",
            "- pca: {class: sklearn.decomposition.PCA, n_components: 5}\n",
            "- pca: {class: sklearn.decomposition.PCA, n_components: 2}\n",
            ["--estimator", "bayes", "--folds", "2"],
        ),
        (
            "cross_validate",
            "grid",
            "knn: {n_neighbors: [1, 3]}\n",
            "knn: {n_neighbors: [1, 5]}\n",
            ["--folds", "2"],
        ),
        (
            "nn_bagging",
            "space",
            "network: mlp\nn_hidden_layer: 5\nlearning_rate: 0.1\nmomentum: 0.9\n",
            "network: mlp\nn_hidden_layer: 6\nlearning_rate: 0.1\nmomentum: 0.9\n",
            ["--n-bootstrap", "1", "--n-tuning", "0", "--max-epochs", "1"],
        ),
    ],
)
def test_a_file_is_its_content(
    command,
    option,
    before,
    after,
    extra_options,
    tmp_path,
    capsys,
):
    path = tmp_path / "named.yaml"
    path.write_text(before)
    run, again = stopped(command, tmp_path / "run", f"--{option}", str(path), *extra_options)
    path.write_text(after)
    assert f"content of --{option} was " in refused(command, again, capsys)
    path.write_text(before)
    assert importlib.import_module(f"pipelines.{command}").main(again) == 0
    assert record(run)["accepted"] == []


def test_personal_vectors_of_a_graph_are_their_content(tmp_path, capsys):
    from pipelines.pagerank import main

    (tmp_path / "edges.csv").write_text("from,to\nx,y\ny,z\nz,x\n")
    (tmp_path / "jumps.csv").write_text("node,weight\nx,1\n")
    files = ["--edges", f"{tmp_path}/edges.csv", "--personalise", f"{tmp_path}/jumps.csv"]
    run = tmp_path / "run"
    assert main([*files, *ON_THREADS, "--quiet", "--results", str(run)]) == 0
    stop(run)
    (tmp_path / "jumps.csv").write_text("node,weight\ny,1\n")
    message = refused("pagerank", ["--resume", str(run)], capsys)
    assert "content of --personalise was" in message


ESTIMATOR = """
from sklearn.neighbors import KNeighborsClassifier
class Nearest(KNeighborsClassifier):
    pass
"""


def test_an_estimator_is_its_source_for_resume_and_extend(mine, capsys):
    from pipelines.cross_validate import main

    path = mine / "own_estimator.py"
    path.write_text(ESTIMATOR)
    estimator_option = ["--estimator", "own_estimator.Nearest"]
    words = [*estimator_option, "--param", "n_neighbors=1,3", "--folds", "2"]
    run, again = stopped("cross_validate", mine / "run", *words)
    path.write_text(ESTIMATOR.replace("pass", "weights = 'distance'"))
    assert "own_estimator.py of --estimator was" in refused(
        "cross_validate", [*again, *estimator_option], capsys
    )
    wider = [
        *SMALL,
        *estimator_option,
        "--param",
        "n_neighbors=1,5",
        "--folds",
        "2",
        "--extend",
        str(run),
    ]
    wider += ["--results", str(mine / "wider")]
    message = refused("cross_validate", wider, capsys)
    assert f"--extend {run} must go on with what it began with, but own_estimator.py was" in message
    assert main([*wider, "--accept-changed"]) == 0
    (accepted,) = record(mine / "wider")["accepted"]
    assert list(accepted["changed"]) == ["own_estimator.py"]


def test_an_extension_may_have_other_estimators(mine):
    """Only code that both runs have is compared."""
    from pipelines.cross_validate import main

    (mine / "own_estimator.py").write_text(ESTIMATOR)
    run, _ = stopped("cross_validate", mine / "run", "--estimator", "knn", "--folds", "2")
    wider = ["--estimator", "knn", "own_estimator.Nearest", "--folds", "2", "--extend", str(run)]
    assert main([*SMALL, *wider, "--results", str(mine / "wider")]) == 0
    assert record(mine / "wider")["accepted"] == []


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    folder = tmp_path_factory.mktemp("identity") / "run"
    return stopped("svm_grid", folder, "--n-c", "1", "--n-gamma", "1", "--folds", "2")[0]


@pytest.fixture
def run(grid, tmp_path):
    return shutil.copytree(grid, tmp_path / "run")


def other_version(package, number, monkeypatch):
    def version(name):
        return number if name == package else metadata.version(name)

    monkeypatch.setattr(identity, "version", version)


def test_another_version_is_refused_with_both_named(run, capsys, monkeypatch):
    from pipelines import svm_grid

    was = record(run)["identity"]["versions"]["scikit-learn"]
    other_version("scikit-learn", "1.0.1", monkeypatch)
    message = refused("svm_grid", ["--resume", str(run)], capsys)
    assert f"but scikit-learn was {was} and is 1.0.1: its rows would be of both" in message
    with pytest.raises(InputError, match=r"scikit-learn was .* accept_changed"):
        svm_grid.run(resume=str(run), quiet=True)
    svm_grid.run(resume=str(run), quiet=True, accept_changed=True)
    assert record(run)["accepted"][0]["changed"] == {"scikit-learn": [was, "1.0.1"]}
    assert record(run)["options"]["accept_changed"] is True


def test_a_dry_run_refuses_it_too(run, capsys, monkeypatch):
    other_version("numpy", "1.0.1", monkeypatch)
    assert "numpy was" in refused("svm_grid", ["--resume", str(run), "--dry-run"], capsys)


def test_what_decides_no_result_may_differ(run, monkeypatch):
    """Another Python, Dask or pandas; and how a package was built."""
    from pipelines.svm_grid import main

    versions = record(run)["versions"] | {"python": "3.11.0", "dask": "2020.1", "pandas": "1.0"}
    (run / "run.json").write_text(json.dumps(record(run) | {"versions": versions}))
    assert set(record(run)["identity"]["versions"]) == {
        "pleasingly",
        "numpy",
        "scipy",
        "scikit-learn",
    }
    other_version("numpy", f"{metadata.version('numpy')}+mkl", monkeypatch)
    assert main(["--resume", str(run), "--quiet"]) == 0
    assert record(run)["accepted"] == []


def test_another_version_of_this_program_is_another(run, capsys, monkeypatch):
    monkeypatch.setattr(identity, "_this_program", lambda: "0.2.0, sources abc")
    assert "pleasingly was 0.1.0" in refused("svm_grid", ["--resume", str(run)], capsys)


def test_a_finished_run_computes_nothing_and_says_what_changed_since(run, capsys, monkeypatch):
    from pipelines.svm_grid import main

    (run / "run.json").write_text(json.dumps(record(run) | {"status": "finished"}))
    assert main(["--resume", str(run)]) == 0
    assert "its answer is of before" not in capsys.readouterr().out
    other_version("numpy", "1.0.1", monkeypatch)
    assert main(["--resume", str(run)]) == 0
    was = metadata.version("numpy")
    assert f"its answer is of before: numpy was {was} and is 1.0.1" in capsys.readouterr().out


def test_a_run_from_before_is_resumed_and_says_what_is_not_known(tmp_path, capsys):
    from pipelines.svm_grid import main

    run = shutil.copytree(KEPT / "svm_grid-interrupted", tmp_path / "run")
    about = record(run)
    about["versions"]["scikit-learn"] = "1.0.1"
    (run / "run.json").write_text(json.dumps(about))
    assert main(["--resume", str(run)]) == 0
    output = capsys.readouterr().out
    assert "does not say which files, code and packages it began with" in output
    now = metadata.version("scikit-learn")
    assert f"scikit-learn was 1.0.1 and is {now}" in output
    assert "identity" in record(run)
    assert len(record(run)["accepted"]) == 1


def test_a_moved_file_with_the_same_content_is_the_same(mine):
    (mine / "elsewhere").mkdir()
    for name in ("mine.py", "sizes.py"):
        shutil.copy(mine / name, mine / "elsewhere" / name)
    first, second = (
        identity.content_of(f"{folder}/mine.py:folds") for folder in (mine, mine / "elsewhere")
    )
    assert first == second


def test_a_run_goes_on_with_files_that_were_moved(mine, capsys):
    from pipelines.svm_grid import main

    cv = ["--cv", f"{mine}/mine.py:folds"]
    run, again = stopped("svm_grid", mine / "run", "--n-c", "1", "--n-gamma", "1", *cv)
    moved = mine / "elsewhere"
    moved.mkdir()
    shutil.copy(mine / "sizes.py", moved)
    shutil.move(mine / "mine.py", moved)
    (moved / "mine.py").write_text(FOLDS + "other = folds\n")
    elsewhere = ["--cv", f"{moved}/mine.py:folds"]
    assert "mine.py of --cv was" in refused("svm_grid", [*again, *elsewhere], capsys)
    (moved / "mine.py").write_text(FOLDS)
    assert main([*again, "--cv", f"{moved}/mine.py:other"]) == 2
    assert main([*again, *elsewhere]) == 0
    extension = [*SMALL, "--n-c", "1", "--n-gamma", "1", *elsewhere, "--extend", str(run)]
    assert main([*extension, "--results", str(mine / "wider")]) == 0


def test_packages_with_relative_imports_are_followed(mine):
    package = mine / "own_package"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text("from .base import A\n")
    (package / "base.py").write_text("import json\nA = 1\n")
    (package / "inner" / "__init__.py").write_text("")
    (package / "inner" / "model.py").write_text("from ..base import A\nfrom . import other\n")
    (package / "inner" / "other.py").write_text("import json.decoder\n")
    sources, versions = identity.content_of("own_package.inner.model:Model")
    assert (set(sources), versions) == (
        {
            "own_package/__init__.py",
            "own_package/base.py",
            "own_package/inner/__init__.py",
            "own_package/inner/model.py",
            "own_package/inner/other.py",
        },
        {},
    )


def test_an_installed_package_is_its_version():
    assert identity.content_of("joblib.memory:Memory") == (
        {},
        {"joblib": metadata.version("joblib")},
    )
    assert identity.content_of("json:JSONDecoder") == ({}, {})


def test_rows_of_a_candidate_that_an_accepted_grid_moved_are_not_anothers(mine, capsys):
    from pipelines.cross_validate import main

    grid = mine / "grid.yaml"
    grid.write_text("knn: {n_neighbors: [1, 90]}\n")
    options = ["--preprocess", "none", "--grid", str(grid)]
    run, again = stopped("cross_validate", mine / "run", *options)
    journal = run / "journal.jsonl"
    journal.write_text("".join(journal.read_text().splitlines(keepends=True)[:1]))
    grid.write_text("knn: {n_neighbors: [90, 1]}\n")
    refused("cross_validate", again, capsys)
    assert main([*again, "--accept-changed"]) == 0
    fresh = mine / "fresh"
    assert main([*SMALL, *options, "--results", str(fresh)]) == 0
    for name in ("best", "test_error"):
        assert record(run)[name] == record(fresh)[name]


def test_an_edited_space_is_refused_even_where_changes_are_accepted(mine, capsys):
    space = mine / "space.yaml"
    space.write_text((ROOT / "pipelines/nn/spaces/mlp.yaml").read_text())
    options = ["--space", str(space), "--n-bootstrap", "1", "--n-tuning", "1", "--max-epochs", "1"]
    _, again = stopped("nn_bagging", mine / "run", *options)
    space.write_text(space.read_text() + "# other\n")
    capsys.readouterr()
    assert importlib.import_module("pipelines.nn_bagging").main([*again, "--accept-changed"]) == 2
    message = capsys.readouterr().err
    assert "content of --space was" in message
    assert "or accept it" not in message


def test_two_files_of_one_name_are_both_compared(mine):
    names = []
    for folder in ("a", "b"):
        (mine / folder).mkdir()
        (mine / folder / "net.py").write_text(f"class N:\n    place = {folder!r}\n")
        names.append(f"{mine / folder / 'net.py'}:N")
    options = dataclasses.make_dataclass(
        "Options",
        [
            (
                "network",
                list,
                dataclasses.field(
                    default_factory=lambda: names,
                    metadata={"changes_results": True, "path": None, "code": list},
                ),
            )
        ],
    )
    before = identity.identity_of(options(), ())
    assert len(before["inputs"]["network"]) == 2
    (mine / "a" / "net.py").write_text("class N:\n    place = None\n")
    assert identity.identity_of(options(), ()) != before


def test_a_file_in_a_checkout_brings_none_of_this_program():
    imported = set(user_code._imported(Path(__file__), ROOT))
    assert ROOT / "tests" / "command_runs.py" in imported
    assert not [path for path in imported if path.is_relative_to(ROOT / "pipelines")]


def test_a_home_that_is_not_known_is_one_line(capsys):
    from pipelines.svm_grid import main

    assert main(["--cv", "~nobody-of-that-name/x.py:folds", *SMALL]) == 2
    assert capsys.readouterr().err.count("\n") == 1
