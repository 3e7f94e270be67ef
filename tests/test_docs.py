"""Every command that README.md and docs/ show is run, on small data of the same form.

Each is run once, on however many pages it stands, and in this process: that commands do the same
as processes of their own is tested beside each of them. What takes long is told to do less of the
same. What needs another machine is run as far as it goes on this one: a queue's command as a dry
run, a container's by the script that stands in the image, a benchmark by its parser.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.datasets import load_diabetes

from cluster_setup.on_this_machine.devices import visible_gpus
from pipelines.commands import typed_names

ROOT = Path(__file__).parents[1]
# Those of the notebooks are one program each, and run as such.
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name != "notebooks"),
]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
COMMAND = re.compile(
    r"(pleasingly|python -m|make|source|eval|sinfo|sbatch|mpirun|srun|apptainer"
    r"|conda|pip|\.venv/bin/uv)( .*)?"
)
OF_NUMBERS = "nn_bagging-20261127-093612"  # the run of nn_bagging on numbers that pages name
FEW_NETS = "--n-bootstrap 3 --n-tuning 0 --max-epochs 3 --cluster threads"
SMALL_NETS = "--n-bootstrap 2 --n-tuning 1 --folds 2 --max-epochs 1 --space small --cluster threads"
# What a command that shows one of these words is told besides: the last word of two counts.
LESS = {
    "--limit 400": "--limit 100",
    "--nested 3": "--nested 2",
    "--repeats 5": "--repeats 2",
    "--nodes 100000": "--nodes 1000",
    "svm_grid --cluster local --workers 2": "--limit 400",
    "--estimator network --network cnn": "--limit 100",
}


def blocks(page, language):
    return [
        text
        for block_language, text in BLOCK.findall(page.read_text())
        if block_language == language
    ]


def commands():
    """Each command, with the first page that shows it."""
    page_names = {}
    for page in PAGES:
        for block in blocks(page, ""):
            for line in block.replace("\\\n", " ").splitlines():
                command = " ".join(re.sub(r"\s+#.*", "", line).split())
                if COMMAND.fullmatch(command):
                    page_names.setdefault(as_module(command), page.name)
    return [(page, command) for command, page in page_names.items()]


def as_module(command):
    """``pleasingly NAME`` as ``python -m pipelines.NAME``, which does the same."""

    def module(match):
        assert match[1] in typed_names(), match[0]
        return f"python -m pipelines.{match[1].replace('-', '_')}"

    command = re.sub(r"\bpleasingly ([a-z]\S*)", module, command)
    return command.replace("pleasingly --", "python -m pipelines --")


def run(command, where, status=0):
    """Run a command as a process of this Python; give what it said."""
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=where,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr


def here(command, where, status=0):
    """Run ``python -m MODULE OPTION...`` in this process; give what it said."""
    python, _, module, *words = shlex.split(command)
    assert python == "python"
    output = io.StringIO()
    with (
        contextlib.chdir(where),
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(output),
    ):
        try:
            done = program(module).main(words)
        except SystemExit as end:  # of a parser: --help, or a mistake
            done = end.code or 0
    assert done == status, output.getvalue()
    return output.getvalue()


def program(module):
    """What ``python -m MODULE`` runs."""
    is_folder = (ROOT / module.replace(".", "/")).is_dir()
    return import_module(f"{module}.__main__" if is_folder else module)


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory):
    """A folder with the files that the pages speak of."""
    folder = tmp_path_factory.mktemp("docs")
    rng = np.random.default_rng(0)
    write_images(folder / "data", rng)
    table = pd.DataFrame(rng.normal(size=(120, 3)), columns=["a", "b", "c"])
    table["species"] = np.where(table.a > 0, "cat", "dog")
    table.to_csv(folder / "mine.csv", index=False)
    houses = table[["a", "b"]].assign(price=(100 * table.a + table.b).round(1))
    houses.to_csv(folder / "houses.csv", index=False)
    write_graphs(folder, rng)
    write_tables(folder, rng)
    (space,) = blocks(ROOT / "docs" / "how-to" / "candidates.md", "yaml")
    (folder / "space.yaml").write_text(space)
    nets = ROOT / "docs" / "how-to" / "own-network.md"
    (folder / "nets.py").write_text(blocks(nets, "python")[0])
    (folder / "nets.yaml").write_text(*blocks(nets, "yaml"))
    (config,) = blocks(ROOT / "docs" / "how-to" / "config.md", "yaml")
    (folder / "animals.yaml").write_text(config)
    *_, scorers = blocks(ROOT / "docs" / "how-to" / "own-estimator.md", "python")
    (folder / "scorers.py").write_text(scorers)
    script, _ = blocks(ROOT / "docs" / "how-to" / "accelerate.md", "python")
    (folder / "script.py").write_text(script)
    for name in ("photo.png", "mine.png", "photo.jpg", "flower.jpg"):
        picture = np.full((60, 60), 250, np.uint8)
        picture[10:50, 27:33] = 20
        Image.fromarray(picture).save(folder / name)
    for i in range(40):  # coloured, and larger than what they are resized to
        coloured = rng.integers(0, 90, (70, 80, 3), dtype=np.uint8)
        coloured[..., i % 2] += 120
        (folder / "photographs" / "ab"[i % 2]).mkdir(parents=True, exist_ok=True)
        Image.fromarray(coloured).save(folder / "photographs" / "ab"[i % 2] / f"{i}.jpg")
    svm = "python -m pipelines.svm_grid --limit 200 --n-c 2 --n-gamma 2 --folds 2 --quiet"
    bagging = "python -m pipelines.nn_bagging --limit 200 --quiet"
    named = {name for _, command in commands() for name in re.findall(r"results/\S+", command)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipelines.report.page.draw_figures", lambda run, figures: {})
        here(f"{svm} --results RUN", folder)
        here(f"{bagging} {SMALL_NETS} --results ENSEMBLE", folder)
        numbers = "--dataset houses.csv --target price --quiet --results NUMBERS"
        here(f"python -m pipelines.nn_bagging {numbers} {FEW_NETS}", folder)
    for name in sorted(named | {"OTHER"}):
        of_images = "ENSEMBLE" if "nn_bagging" in name else "RUN"
        shutil.copytree(folder / ("NUMBERS" if OF_NUMBERS in name else of_images), folder / name)
    here("python -m pipelines.export results/svm_grid-20261120-130849 --to onnx", folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        (profile,) = blocks(ROOT / "docs" / "how-to" / "slurm.md", "yaml")
        profile_path = folder / "config" / "pleasingly" / "mysite.yaml"
        profile_path.parent.mkdir(parents=True)
        profile_path.write_text(profile)
        yield folder


def write_graphs(folder, rng):
    """One small graph in the forms that the page of PageRank reads, and two vectors on it."""
    frame = pd.DataFrame(rng.integers(0, 50, (200, 2)), columns=["from", "to"])
    frame["clicks"] = rng.integers(1, 9, 200)
    frame.to_csv(folder / "links.csv", index=False)
    frame.to_parquet(folder / "links.parquet")
    frame.to_csv(folder / "huge.tsv", sep="\t", index=False)
    frame.to_csv(folder / "soc-LiveJournal1.txt", sep="\t", header=False, index=False)
    topics = pd.DataFrame({"node": frame["from"].unique()[:5], "science": 1.0, "music": 2.0})
    topics.to_csv(folder / "topics.csv", index=False)


def write_tables(folder, rng):
    """Tables as they come: without a header line, with categories, text and rare classes."""
    frame = pd.DataFrame(rng.normal(size=(120, 4)), columns=list("abcd"))
    frame["kind"] = np.where(frame.a > 0, "setosa", "virginica")
    frame.to_csv(folder / "iris.data", header=False, index=False)
    rings = np.r_[np.arange(4) + 20, np.arange(4) + 20, rng.integers(7, 10, 112)]
    abalone = pd.DataFrame(rng.random((120, 7))).assign(rings=rings)
    abalone.insert(0, "sex", rng.choice(list("MFI"), 120))
    abalone.to_csv(folder / "abalone.data", header=False, index=False)
    tickets = [f"A{i}" for i in rng.integers(0, 90, 120)]
    people = pd.DataFrame({"ticket": tickets, "sex": rng.choice(["f", "m"], 120)})
    people["survived"] = rng.choice(["yes", "no"], 120)
    people.assign(age=rng.normal(40, 9, 120)).to_csv(folder / "titanic.csv", index=False)
    shutil.copy(folder / "mine.csv", folder / "new.csv")
    diabetes = load_diabetes(as_frame=True)
    diabetes.frame.to_csv(folder / "diabetes.csv", index=False)


def write_images(folder, rng):
    """Files of MNIST's form with random images."""
    folder.mkdir()
    for part, n_images in (("train", 300), ("t10k", 60)):
        labels = np.arange(n_images, dtype=np.uint8) % 10
        images = rng.integers(0, 60, (n_images, 28, 28), dtype=np.uint8)
        images[np.arange(n_images), labels * 2 + 4] += 150  # a bright line tells the class
        for kind, magic, array in (("images-idx3", 2051, images), ("labels-idx1", 2049, labels)):
            header = np.array([magic, *array.shape], dtype=">i4").tobytes()
            (folder / f"{part}-{kind}-ubyte").write_bytes(header + array.tobytes())


def with_less(command, sandbox):
    here(" ".join([command, *(less for words, less in LESS.items() if words in command)]), sandbox)


def few_fits(command, sandbox):
    with_less(f"{command} --folds 2", sandbox)


def small_networks(command, sandbox):
    rows = " --explain 7,18" if "--explain" in command else ""
    here(f"{command} {SMALL_NETS}{rows}", sandbox)


def few_networks(command, sandbox):
    here(f"{command} {FEW_NETS}", sandbox)


def small_training(command, sandbox):
    points = "" if "--network" in command else " --points 600"
    small = f"--epochs 1 --batch-size 32 --repeats 1 --workers 2{points}"
    with_less(f"{command} {small}", sandbox)


def predict(command, sandbox):
    here(re.sub(r"\bRUN\b", "ENSEMBLE", command), sandbox)


def predict_images(command, sandbox):
    run = sandbox / "IMAGE_RUN"
    if not run.exists():
        grid = "--image-size 16 --n-c 2 --n-gamma 2 --folds 2 --quiet --results IMAGE_RUN"
        here(f"python -m pipelines.svm_grid --dataset photographs {grid}", sandbox)
    here(re.sub(r"\bRUN\b", "IMAGE_RUN", command), sandbox)


def predict_table(command, sandbox):
    program, _, _ = command.partition(" predict ")
    run = f"{program.rpartition('.')[2]}-run"
    if not (sandbox / run).exists():
        few = "--estimator tree" if "cross_validate" in program else "--n-c 2 --n-gamma 2"
        here(f"{program} --dataset mine.csv {few} --folds 2 --quiet --results {run}", sandbox)
    here(re.sub(r"\bresults/\S+", run, command), sandbox)


def dry(command, sandbox):
    output = here(f"{command} --dry-run", sandbox)
    assert "nothing was run" in output
    if "--cluster slurm" in command:
        assert "#SBATCH" in output


def dry_without_ranks(command, sandbox):
    (command,) = re.findall(r"python -m .*", command)
    assert "nothing was run" in run(f"{command} --dry-run", sandbox)


def with_own_class(command, sandbox):
    (page,) = (page for page in PAGES if page.name == "own-estimator.md")
    (code,) = (code for code in blocks(page, "python") if "class NearestMean" in code)
    (sandbox / "mine.py").write_text(code)
    output = run(f"{command} --limit 100 --folds 2 --workers 1", sandbox)
    assert "mine.NearestMean" in output


def with_own_network(command, sandbox):
    """Before predict, of the run that the page trains."""
    if " predict " in command and not (sandbox / "own-run").exists():
        network_options = "--network nets.py:Small --results own-run"
        here(f"python -m pipelines.nn_bagging --limit 100 {network_options} {FEW_NETS}", sandbox)
    few = "" if " predict " in command else f" --limit 100 {FEW_NETS}"
    few = " --limit 100 --folds 2 --cluster threads" if "cross_validate" in command else few
    here(re.sub(r"\bRUN\b", "own-run", command) + few, sandbox)


def on_gpus(command, sandbox):
    output = here(command, sandbox, status=0 if visible_gpus() else 2)
    assert visible_gpus() or "needs a GPU" in output


def parsed(command, sandbox):
    _, _, module, *words = shlex.split(command)
    program(module)._parser().parse_args(words)


def planned_by_make(command, sandbox):
    run(f"make --dry-run {command.removeprefix('make')}", ROOT)


def extra(command, sandbox):
    if "download.pytorch.org" in command:  # the network is not asked
        assert command.endswith("/whl/cpu torch")
        return
    (names,) = re.findall(r"'\.\[(.*)\]'", command)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(names.split(",")) <= set(project["optional-dependencies"])


def built(command, sandbox):
    assert (ROOT / command.split()[-1]).is_file()


def in_a_container(command, sandbox):
    image, *words = command.removeprefix("apptainer run ").removeprefix("--nv ").split()
    assert image in {"pleasingly-cpu.sif", "pleasingly-gpu.sif"}
    also = "--version" if words == ["lab"] else "--dry-run"
    output = run(f"{ROOT}/cluster_setup/containers/entrypoint.sh {' '.join(words)} {also}", sandbox)
    if words != ["lab"]:
        assert "nothing was run" in output
        same = as_module(f"pleasingly {' '.join(words)}")
        if same not in {shown for _, shown in commands()}:  # those are run by themselves
            here(same, sandbox)


def by_the_slurm_tests(command, sandbox):
    word = (re.findall(r"slurm_on_one_machine (\w+)", command) or ["up"])[0]
    assert word in (ROOT / "tests" / "integration" / "conftest.py").read_text()


def a_file(command, sandbox):
    assert command in (
        "source .venv/bin/activate",
        "conda env create --file environment.yml",
        "conda activate pleasingly",
        "pip install --no-deps --editable .",
    )


def without_certificate(command, sandbox):
    assert "needs the certificate that its scheduler was started with" in here(
        command, sandbox, status=2
    )


# The first pattern that a command begins with says how it is run.
HOW: list[tuple[str, Callable[[str, Path], None]]] = [
    (r"python -m pipelines\.\w+ .*--cluster (slurm|pbs|sge|mpi)", dry),
    (r"python -m pipelines\.\w+ .*--cluster cuda", on_gpus),
    (r"python -m pipelines\.\w+ .*--cluster tls://", without_certificate),
    (r"python -m pipelines\.cross_validate --estimator mine", with_own_class),
    (r"(mpirun|srun) .*python -m pipelines", dry_without_ranks),
    (r"python -m pipelines\.\w+ .*\bnets\.(py|yaml)", with_own_network),
    (r"python -m pipelines\.nn_bagging predict", predict),
    (r"python -m pipelines\.svm_grid predict .*--image", predict_images),
    (r"python -m pipelines\.(svm_grid|cross_validate) predict", predict_table),
    (r"python -m pipelines\.svm_grid --dataset photographs", few_fits),
    (r"python -m pipelines\.nn_bagging --resume", with_less),
    (r"python -m pipelines\.nn_bagging --dataset (houses|diabetes)", few_networks),
    (r"python -m pipelines\.nn_bagging", small_networks),
    (r"python -m pipelines\.data_parallel", small_training),
    (r"python -m pipelines\.cross_validate --estimators", with_less),
    (r"python -m pipelines\.cross_validate", few_fits),
    (r"python -m pipelines\b", with_less),
    (r"python -m benchmarks\.", parsed),
    (r"make ", planned_by_make),
    (r"\.venv/bin/uv pip install", extra),
    (r"apptainer build", built),
    (r"apptainer run", in_a_container),
    (r'eval "\$\(python -m tests\.slurm_on_one|sinfo', by_the_slurm_tests),
    (r"python -m tests\.slurm_on_one_machine", by_the_slurm_tests),
    (r"source |conda |pip ", a_file),
]


def test_the_pages_show_commands():
    assert len(commands()) > 30


# A warning is one, as for who types the command.
@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    ("page", "command"),
    [
        pytest.param(*case, marks=pytest.mark.figures if "pipelines.report" in case[1] else ())
        for case in commands()
    ],
)
def test_a_command_of_the_pages_runs(page, command, sandbox):
    how = next((how for start, how in HOW if re.match(start, command)), None)
    assert how is not None, f"{page} shows a command that no rule here runs: {command}"
    how(command, sandbox)


@pytest.mark.parametrize(
    ("page", "number", "code"),
    [
        pytest.param(page.name, i, code, marks=pytest.mark.figures if ".figures" in code else ())
        for page in PAGES
        for i, code in enumerate(blocks(page, "python"))
    ],
)
def test_a_program_of_the_pages_runs(page, number, code, sandbox, monkeypatch):
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    X = X[:300] / 16
    monkeypatch.chdir(sandbox)
    names = {"X": X, "y": y[:300], "X_new": X[:5], "weights": 1 + y[:300] / 9}
    names["__name__"] = "a page"
    exec(compile(code.replace("results/…", "RUN"), f"{page} {number}", "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_links_of_the_pages_lead_somewhere(page):
    text = page.read_text()
    for target in re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", text):
        assert (page.parent / target).exists(), target


def test_every_column_of_the_rows_is_described():
    from pipelines.svm_search.record import SvmRow

    text = (ROOT / "docs" / "run-folder.md").read_text()
    assert {name for name in SvmRow.model_fields if f"`{name}`" not in text} == set()
