"""Every text of every figure is read on what lies under it, in light and in the dark."""

import pytest

from pipelines.report import write_report
from tests.command_runs import said_by

from .conftest import write_ensemble, write_run
from .svg_contrast import contrast, texts_of

SMALL = {
    "pagerank": "--nodes 500 --degree 4 --cluster threads",
    "data_parallel": "--dataset digits --network mlp --limit 300 --epochs 2 "
    "--compare every-step,every-k=2 --cluster local --workers 2 --dashboard off --quiet",
}
COMMANDS = ["svm_grid", "cross_validate", "nn_bagging", *SMALL]


@pytest.fixture(scope="module")
def run_of(tmp_path_factory, finished_of):
    """A function that gives a finished run of a command, with its page."""

    def folder_of(name):
        if name not in SMALL:
            return finished_of(name)[0]
        folder = tmp_path_factory.mktemp("runs") / name
        said_by(name, *SMALL[name].split(), "--results", str(folder))
        return folder

    return folder_of


def unreadable(folder):
    """Texts of a run's figures whose contrast is less than WCAG asks for."""
    failed, n_texts = [], 0
    for path in sorted(folder.glob("*.svg")):
        svg = path.read_text(encoding="utf-8")
        for dark in (False, True):
            texts = texts_of(svg, svg, dark)
            n_texts += len(texts)
            failed += [
                f"{path.stem}{' in the dark' if dark else ''}: {text}"
                for text in texts
                if text.contrast < text.needed
            ]
    assert n_texts > 20
    return failed


@pytest.mark.parametrize("command", COMMANDS)
def test_texts_of_a_commands_page_are_read(run_of, command):
    assert unreadable(run_of(command)) == []


def test_texts_on_every_colour_of_a_map_are_read(tmp_path):
    # Errors from 3 % to 80 %: the numbers stand on every colour between dark and bright.
    C, gamma = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0], [1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1]
    write_report(write_run(tmp_path / "run", C=C, gamma=gamma))
    assert unreadable(tmp_path / "run") == []


def test_texts_of_deferred_samples_are_read(tmp_path):
    write_report(write_ensemble(tmp_path / "run"))
    assert unreadable(tmp_path / "run") == []


def test_contrast_is_that_of_wcag():
    assert contrast([255, 255, 255], [0, 0, 0]) == pytest.approx(21)
    assert contrast([119, 119, 119], [255, 255, 255]) == pytest.approx(4.48, abs=0.01)


def test_what_lies_under_a_text_is_what_was_painted_before_it():
    glyph = "<path id='DejaVu-1' d='M 0 0 L 4000 0 L 4000 4000 L 0 4000 z'/>"
    text = "<g id='text_1'><g style='fill: #1f2933' transform='translate(5 5) scale(0.001)'>"
    svg = (
        "<svg xmlns='http://www.w3.org/2000/svg' xmlns:xlink='http://www.w3.org/1999/xlink' "
        f"viewBox='0 0 20 20'><defs>{glyph}</defs>{{}}{text}<use xlink:href='#DejaVu-1'/></g></g>"
        "</svg>"
    )
    css = "svg { background: #000000 } [style*='fill: #1f2933'] { fill: #e6eaee !important } "
    cell = "<path d='M 4 4 L 12 4 L 12 12 L 4 12 z' style='fill: #a9d3ec; opacity: 0.5'/>"
    (light,), (dark,) = (texts_of(svg.format(cell), css, dark) for dark in (False, True))
    assert light.colours == ("#1f2933", "#d4e9f5")
    assert dark.colours == ("#e6eaee", "#556a76")
    (bare,) = texts_of(svg.format(""), css, True)
    assert bare.colours == ("#e6eaee", "#000000")
    assert bare.contrast > dark.contrast
