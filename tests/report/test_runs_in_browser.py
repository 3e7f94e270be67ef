"""The page of runs in a real browser: what is ticked is what the command compares."""

from __future__ import annotations

import shlex

import pytest

from pipelines.report.__main__ import main as report
from pipelines.runs import main
from tests.report.conftest import write_run

pytestmark = pytest.mark.browser
PHONE, DESK = {"width": 400, "height": 800}, {"width": 1280, "height": 800}


@pytest.fixture(scope="module")
def runs_page(tmp_path_factory):
    """A page of three runs, one of them with a name that a shell would take apart."""
    folder = tmp_path_factory.mktemp("place") / "results"
    folder.mkdir()
    for name in ("plain", "it's a run", "svm_grid-3"):
        write_run(folder / name)
    (folder / "plain" / "report.html").write_text("<title>of a run</title>")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder.parent)
        assert main(["--page", "results/runs.html", "--sort", "name"]) == 0
    return folder / "runs.html"


@pytest.fixture(params=[PHONE, DESK], ids=["phone", "desk"])
def page(request, browser, runs_page):
    context = browser.new_context(
        viewport=request.param, permissions=["clipboard-read", "clipboard-write"]
    )
    page = context.new_page()
    page.problems = []
    page.on("console", lambda message: page.problems.append(message.text))
    page.on(
        "request",
        lambda http_request: (
            http_request.url.startswith("http") and page.problems.append(http_request.url)
        ),
    )
    page.goto(runs_page.as_uri())
    yield page
    context.close()


def command(page):
    return shlex.split(page.locator("#compare pre code").inner_text())


def test_two_ticks_make_a_command_that_runs(page, runs_page, monkeypatch, capsys):
    copy = page.locator("#compare .copy")
    assert command(page)[-2:] == ["RUN", "RUN"]
    assert not copy.is_visible()
    page.get_by_label("Compare svm_grid-3").check()
    assert page.get_by_role("status").inner_text() == "1 run ticked"
    assert not copy.is_visible(), "one run is compared with nothing"
    page.get_by_label("Compare it's a run").check()
    assert page.get_by_role("status").inner_text() == "2 runs ticked"
    words = command(page)
    assert words[-2:] == ["results/it's a run", "results/svm_grid-3"]
    copy.click()
    page.wait_for_function("document.querySelector('#compare .copy').textContent == 'Copied'")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert shlex.split(copied) == words
    monkeypatch.chdir(runs_page.parents[1])
    assert report(words[words.index("--compare") :]) == 0
    assert capsys.readouterr().out == "results/comparison.html\n"
    assert "are equally good" in (runs_page.parent / "comparison.html").read_text()
    page.get_by_label("Compare it's a run").uncheck()
    assert command(page)[-2:] == ["RUN", "RUN"]
    assert page.problems == [], "no error, and nothing is asked of a network"


def test_ticks_stay_with_their_runs_when_the_table_is_sorted(page):
    header = page.locator("#runs th button").first
    header.click()
    header.click()  # the last name first
    names = [cell.inner_text().strip() for cell in page.locator("#runs tbody td:first-child").all()]
    assert names == ["svm_grid-3", "plain", "it's a run"]
    page.get_by_label("Compare svm_grid-3").check()
    page.get_by_label("Compare plain").check()
    assert command(page)[-2:] == ["results/plain", "results/svm_grid-3"]


def test_a_box_is_ticked_by_the_keyboard(page):
    box = page.get_by_label("Compare plain")
    box.focus()
    page.keyboard.press("Space")
    assert box.is_checked()
    assert page.get_by_role("status").inner_text() == "1 run ticked"


def test_nothing_is_wider_than_the_screen_and_a_run_has_its_page(page):
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("link", name="plain").click()
    assert page.title() == "of a run"


def test_the_dark_has_light_text_on_dark_ground(page):
    def brightness(what):
        colour = page.evaluate(f"getComputedStyle(document.body).{what}")
        return sum(int(part) for part in colour.strip("rgb()").split(","))

    page.emulate_media(color_scheme="dark")
    assert brightness("color") > brightness("backgroundColor")


def test_the_saved_table_has_no_column_of_boxes(page):
    with page.expect_download() as saved:
        page.locator("#runs .csv").click()
    lines = saved.value.path().read_text().splitlines()
    assert lines[0].startswith("run,started (UTC),command,data,best,cv error,test error,")
    assert lines[1].startswith("it's a run,2025-11-20 10:13,svm-grid,digits,")


def test_without_a_script_the_page_is_whole(browser, runs_page):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(runs_page.as_uri())
    assert page.locator("#runs tbody tr").count() == 3
    assert command(page)[-2:] == ["RUN", "RUN"]
    context.close()
