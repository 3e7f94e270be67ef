import os
import subprocess
import sys

import pytest

from pipelines.report.__main__ import main


@pytest.mark.slow
def test_each_named_run_is_redrawn(make_run, capsys):
    folders = [make_run(name="one"), make_run(name="two")]
    assert main([str(folder) for folder in folders]) == 0
    pages = [str(folder / "report.html") for folder in folders]
    comparison = folders[0].parent / "comparison.html"
    assert capsys.readouterr().out.splitlines() == [*pages, str(comparison)]
    text = comparison.read_text()
    assert '<a href="one/report.html">one</a>' in text
    assert '<a href="two/report.html">two</a>' in text


def test_one_run_is_compared_with_nothing(make_run):
    folder = make_run()
    assert main([str(folder)]) == 0
    assert not (folder.parent / "comparison.html").exists()


@pytest.mark.parametrize(
    ("argv", "phrase"),
    [
        (["absent"], "report: RUN must be a run folder that exists, got 'absent': name a folder"),
        (["."], "RUN must be a run folder with a run.json"),
        (["run", "./run"], "RUN must be different run folders, got"),
        (["run", "run", "--compare", "page.html"], "twice; name it once"),
        (["run"], "RUN must be a folder that can be written, got 'run'"),
        (
            ["run", "--compare", "absent/page.html"],
            "--compare must be a file that can be written, got 'absent/page.html'",
        ),
    ],
)
def test_what_cannot_be_read_or_written_is_one_line_and_status_2(
    make_run, argv, phrase, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (make_run() / "heat_map.svg").mkdir()  # stands in for any refusal of the file system
    assert main(argv) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert phrase in line


@pytest.mark.slow
def test_a_terminal_that_takes_nothing_costs_no_page(make_run):
    folder = make_run(name="Übung")
    command = f"{sys.executable} -m pipelines.report '{folder}'"
    shell = f"PYTHONIOENCODING=ascii {command} | true; exit ${{PIPESTATUS[0]}}"
    ended = subprocess.run(["bash", "-c", shell], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert (folder / "report.html").is_file()


@pytest.mark.parametrize(
    ("argv", "phrase"),
    [
        ([], "report: RUN must be a run folder, got none; "),
        (["--compare", "page.html"], "report: RUN must be a run folder, got none; "),
        (["run", "--compere", "x"], "--compere is not an option of this command; did you mean --c"),
        (["run", "--compare"], "report: --compare: expected one argument"),
    ],
)
def test_a_misspelt_command_line_is_one_line_and_status_2(argv, phrase, capsys):
    assert main(argv) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert phrase in line


def test_help_lists_arguments_and_options(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["-h"])
    shown = capsys.readouterr().out
    assert "report RUN [RUN ...] [options]" in shown
    assert "--compare PAGE.html" in shown


def test_an_option_may_stand_before_the_runs_and_among_them(make_run, tmp_path, capsys):
    first, second = make_run(name="one"), make_run(name="two")
    page = tmp_path / "page.html"
    assert main([str(first), "--compare", str(page), str(second)]) == 0
    assert main(["--compare", str(page), str(first), str(second)]) == 0
    assert capsys.readouterr().out.split() == [str(page)] * 2


def test_the_command_begins_with_nothing_heavy():
    code = (  # as -m does: with another program pipelines registers itself with joblib
        "import sys; sys.argv[0] = '-m'; import pipelines.report, pipelines.report.__main__; "
        "print([m for m in ('matplotlib', 'pandas', 'jinja2', 'numpy') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_matplotlib_that_cannot_be_imported_is_one_line(make_run):
    folder, command = make_run(), [sys.executable, "-m", "pipelines.report"]
    unusable = {**os.environ, "MPLBACKEND": "nonsense"}
    ended = subprocess.run([*command, str(folder)], env=unusable, capture_output=True, text=True)
    (line,) = ended.stderr.splitlines()
    assert line.startswith("report: matplotlib cannot be imported: Key backend: 'nonsense' is not")
    assert ended.returncode == 2
