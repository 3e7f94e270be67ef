"""A run's folder may be another's: nothing is written, or removed, through a link that is there."""

from __future__ import annotations

import ast
import json
import shutil
from importlib import import_module
from pathlib import Path

import pytest

from pipelines.errors import InputError
from pipelines.report.__main__ import main as report
from pipelines.run_folder.folder import hold, unused
from pipelines.run_folder.journal import Journal
from pipelines.run_folder.names import JOURNAL, RECORD, replacing

ROOT = Path(__file__).parents[2]
KEPT = Path(__file__).parent / "kept"
SMALL = {
    "svm_grid": "--limit 200 --n-c 2 --n-gamma 3 --folds 2 --cluster threads",
    "cross_validate": "--limit 200 --folds 2 --estimator tree --param max_depth=1,2 "
    "--estimator knn --cluster threads",
    "nn_bagging": "--limit 200 --n-bootstrap 2 --n-tuning 1 --folds 2 --max-epochs 1 "
    "--cluster threads",
    "pagerank": "--random erdos --nodes 50 --cluster threads",
    "data_parallel": "--network mlp --limit 200 --ranks 1 --epochs 1 --workers 1 --cluster local",
}


QUICK = "svm_grid", "pagerank"


def link_all(folder, foreign):
    """Move all files of a run but its journal elsewhere, and put links in their place."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != JOURNAL]
    contents = {}
    for path in files:
        target = foreign / path.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(path, target)
        path.symlink_to(target)
        contents[target] = target.read_bytes()
    return contents


@pytest.mark.parametrize(
    "command",
    [
        *QUICK,
        *(pytest.param(name, marks=pytest.mark.slow) for name in SMALL if name not in QUICK),
    ],
)
def test_a_run_that_is_resumed_and_drawn_replaces_links(command, tmp_path):
    folder, main = tmp_path / "run", import_module(f"pipelines.{command}").main
    words = SMALL[command].split()
    assert main([*words, "--results", str(folder), "--quiet"]) == 0
    about = json.loads((folder / RECORD).read_text()) | {"status": "running", "files": {}}
    (folder / RECORD).write_text(json.dumps(about))
    contents = link_all(folder, tmp_path / "foreign")
    assert len(contents) > 2
    assert main(["--resume", str(folder), "--quiet", "--cluster", words[-1]]) == 0
    assert {path: path.read_bytes() for path in contents} == contents
    links = [path.name for path in folder.iterdir() if path.is_symlink()]
    assert links == []


@pytest.mark.figures
def test_the_pages_of_several_runs_replace_links(tmp_path):
    runs = [path for path in sorted(KEPT.iterdir()) if (path / RECORD).is_file()][:3]
    copies = [Path(shutil.copytree(path, tmp_path / path.name)) for path in runs]
    assert report([*map(str, copies)]) == 0
    drawn = [path for path in tmp_path.rglob("*") if path.suffix in (".svg", ".png", ".html")]
    assert any(path.suffix == ".png" and path.parent == tmp_path for path in drawn)
    assert any(path.suffix == ".png" and path.parent == copies[0] for path in drawn)
    foreign = tmp_path / "foreign"
    foreign.touch()
    for path in drawn:
        path.unlink()
        path.symlink_to(foreign)
    assert report([*map(str, copies)]) == 0
    assert foreign.read_bytes() == b""
    assert not any(path.is_symlink() for path in drawn)


@pytest.mark.parametrize("has_target", [True, False], ids=["to a file", "to none"])
def test_a_journal_that_is_a_link_is_refused(has_target, tmp_path):
    folder, foreign = tmp_path / "run", tmp_path / "foreign"
    folder.mkdir()
    (folder / JOURNAL).symlink_to(foreign)
    if has_target:
        foreign.touch()
    link = f"{JOURNAL}, a link to {foreign}; move"
    with pytest.raises(InputError, match=link), hold("svm_grid", str(folder), None):
        pass
    with pytest.raises(OSError, match="symbolic links"):
        Journal(folder / JOURNAL)
    assert foreign.exists() == has_target


def test_a_folder_that_is_a_link_is_refused_before_files_are_removed(tmp_path):
    """What ``run.json`` says of files behind it would have them removed as changed."""
    folder, foreign = tmp_path / "run", tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "mine.txt").touch()
    folder.mkdir()
    (folder / "members").symlink_to(foreign)
    files = {"members/mine.txt": {"bytes": 9, "sha256": "0"}}
    about = {"command": "nn_bagging", "status": "stopped", "options": {}, "files": files}
    (folder / RECORD).write_text(json.dumps(about))
    link = f"--resume must .*/members, a link to {foreign}"
    with pytest.raises(InputError, match=link), hold("nn_bagging", None, str(folder)):
        pass
    assert (foreign / "mine.txt").exists()


def test_a_name_that_a_link_to_nothing_has_is_taken(tmp_path):
    page = tmp_path / "performance.html"
    page.symlink_to(tmp_path / "elsewhere")
    assert unused(page) == tmp_path / "performance-2.html"


def test_a_long_name_leaves_room_for_the_name_of_the_unfinished_file(tmp_path):
    path = tmp_path / ("é" * 120 + ".csv")
    with replacing(path) as unfinished:
        unfinished.write_text("1")
    assert path.read_text() == "1"


WRITES = ("to_parquet", "to_csv", "to_json", "savefig", "write_text", "write_bytes", "savez")


def test_files_are_written_under_another_name_first():
    """Whoever writes one by a path that is put together on the spot has not asked ``replacing``."""
    direct = []
    for path in (ROOT / "pipelines").rglob("*.py"):
        if path.name == "image_folder.py":  # a folder of its own, which is renamed when it is whole
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                written = [*node.args[:1], node.func.value]
                if node.func.attr.startswith(WRITES) and any(
                    isinstance(part, ast.BinOp) and isinstance(part.op, ast.Div)
                    for expression in written
                    for part in ast.walk(expression)
                ):
                    direct.append(f"{path.name}:{node.lineno}")
    assert direct == []
