import base64
import json
import re
import shutil
from io import BytesIO
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from pipelines.report import write_report
from pipelines.report.page import TOO_MANY
from pipelines.report.style import inline

from .page_reader import Page, figures_in

FIGURES = {"heat_map", "fold_errors_best", "confusion_matrix", "timeline"}


FIRST = (
    # Four folds with 6, 9, 7 and 14 errors of 200.
    "The best is C = 10, gamma = 0.01.",
    "cv error 4.50 % ± 1.54 %, standard deviation of 4 folds",
    "test error 33.33 % 2 of 6 test samples",
    "as good as the best no other",
    "5 C × 4 gamma, 4-fold cross-validation, 800 training samples",
    "finished in 2 min 05 s",
)
LATER = (
    # rank, C, gamma, error, standard deviation, support vectors, fit time
    "fit time (s) as good 1 10 0.01 4.50 % 1.54 % 52 1",
    "busy 82 % of the time",
    "Peak memory of a worker: 2.0 GiB.",
    "zero 2 2 100.00 % 100.00 % 100.00 %",
    "one 2 1 50.00 % 50.00 % 50.00 %",
    "mean 6 4 66.67 % 66.67 % 66.67 %",
    "pleasingly svm-grid --results 'my results'",
    "Seed 7",
    "sha256:0123abcd",
    "Scaling kind constants, centre 127.5, scale 73.61",
    "2 × CPU on laptop",
    "Commit c723bce",
    "2025-11-20 10:13 UTC",
    "dask 2026.7.1",
)


def test_the_first_screen_has_the_answers_numbers_and_the_rest_what_else_there_is(grid_page):
    first, later = Page(grid_page).text.split("Candidates All", 1)
    assert [words for words in FIRST if words not in first] == []
    assert [words for words in LATER if words not in later] == []
    assert "busy" not in first


def test_a_finished_run_has_every_figure_in_the_page_and_beside_it(grid_page):
    page, folder = Page(grid_page), grid_page.parent

    assert figures_in(folder) == FIGURES
    assert all(image["alt"] for image in page.all("img"))
    plots = [part for part in page.all("div") if part.get("class") == "plot"]
    assert len(page.all("svg")) == len(plots) == len(FIGURES)
    assert all(plot["aria-label"] and plot["role"] == "img" for plot in plots)
    source = grid_page.read_text()
    for path in folder.glob("*.svg"):
        svg = path.read_text()
        assert inline(svg, path.stem) in source
        assert ElementTree.fromstring(svg).tag.endswith("svg")
        assert "<!--" not in svg, "a name in a comment could be anything"


def test_the_page_needs_nothing_from_outside(grid_page):
    page = Page(grid_page)

    for _, attributes in page.elements:
        for name in ("src", "href", "srcset", "action", "data", "poster"):
            value = attributes.get(name) or ""
            assert not re.match(r"(?i)\s*(https?:|//|ftp:|file:)", value)
    source = re.sub(r'(src|href)="data:[^"]*"', "", grid_page.read_text())
    assert "@import" not in source
    assert "url(" not in source.replace("url(#", ""), "but to clip paths of the page itself"
    assert "fetch(" not in source
    assert "http://" not in source
    assert "https://" not in source
    assert page.all("script") == [{}]


def test_no_two_figures_share_an_identifier_and_every_reference_leads_somewhere(ensemble_page):
    page, source = Page(ensemble_page), ensemble_page.read_text()
    names = [attributes["id"] for _, attributes in page.elements if attributes.get("id")]
    assert len(names) == len(set(names)) > 100
    references = re.findall(r'(?:xlink:href="#|url\(#)([^")]+)', source)
    assert len(references) > 100
    assert set(references) <= set(names)
    assert source.count("prefers-color-scheme: dark") == 2, "of the page, and of all its figures"


def told_of(page, words):
    (plot,) = [
        part
        for part in page.all("div")
        if words in (part.get("aria-label") or "") and "role" in part
    ]
    return [line.split(" ", 4)[4] for line in plot["data-values"].splitlines()]


def test_figures_tell_their_values(grid_page):
    page = Page(grid_page)
    cells = told_of(page, "of every C and gamma")
    assert len(cells) == 20
    assert "C = 10, gamma = 0.01: error 4.50 %" in cells
    folds = told_of(page, "The folds at gamma = 0.01")
    assert len(folds) == 5 * (4 + 1), "four folds, and their mean, of each C"
    assert "C = 10: error 7.00 %" in folds
    assert "C = 10: error, mean 4.50 %, standard deviation 1.54 %" in folds
    counted = told_of(page, "Confusion matrix")
    assert "true one, predicted two: 1 test sample" in counted
    tasks = told_of(page, "Each bar is a task")
    assert "svm gamma=0.0001 fold=0: 2.0 s on 127.0.0.1:40001" in tasks


def test_a_figure_of_too_many_values_says_that_it_tells_none(make_run, monkeypatch):
    run = make_run()
    assert TOO_MANY not in Page(write_report(run)).text
    monkeypatch.setattr("pipelines.report.figure_values.MOST_VALUES", 19)
    page = Page(write_report(run))
    (heatmap,) = [
        part for part in page.all("div") if "of every C and gamma" in (part.get("aria-label") or "")
    ]
    assert "data-values" not in heatmap
    assert page.text.count(TOO_MANY) >= 1


def at_most_all_wrong(cells):
    error = cells["error"].clip(upper=0.9)
    return cells.assign(error=error, score=1 - error, n_errors=(200 * error).round().astype(int))


def test_a_grid_of_2880_fits_has_a_page_of_less_than_1500_kb(make_run):
    C, gamma = np.logspace(-3, 6, 24), np.logspace(-6, -2, 24)
    page = write_report(make_run(C=tuple(C), gamma=tuple(gamma), change=at_most_all_wrong))
    assert page.stat().st_size < 1_500_000
    assert len(told_of(Page(page), "of every C and gamma")) == 576


def test_headings_and_anchors_agree(grid_page):
    page, folder = Page(grid_page), grid_page.parent
    targets = {attributes["id"] for _, attributes in page.elements if attributes.get("id")}
    for link in page.all("a"):
        href = link["href"] or ""
        assert href[1:] in targets if href.startswith("#") else (folder / href).is_file()
    assert len(page.all("h1")) == 1
    assert page.all("html") == [{"lang": "en"}]


def test_names_are_escaped(make_run, edit_run):
    folder = make_run()
    record = json.loads((folder / "run.json").read_text())
    hostile = "<b>x</b>\"&'</script><script>alert(1)</script>"
    edit_run(
        folder,
        dataset=record["dataset"]
        | {"classes": [hostile, hostile, "<i>"], "name": hostile, "image_shape": None},
        argv=["python", "-m", "pipelines.svm_grid", "--dataset", hostile],
        options=record["options"] | {"dataset": hostile},
        versions={hostile: hostile},
        reason=hostile,
        status=hostile,
    )
    (folder / "test_errors.npz").unlink()
    page = Page(write_report(folder))

    assert page.all("b") == page.all("i") == []
    assert len(page.all("script")) == 1
    assert "<b>x</b>" in page.text


def test_a_scoring_other_than_accuracy_is_named_where_it_chose_the_best(make_run, edit_run):
    folder = make_run()
    candidates = pd.read_parquet(folder / "candidates.parquet")
    candidates.assign(score_mean=0.9, score_std=0.01).to_parquet(folder / "candidates.parquet")
    record = json.loads((folder / "run.json").read_text())
    best = record["best"] | {"score_mean": 0.9123, "score_std": 0.0145}
    edit_run(
        folder,
        best=best,
        options=record["options"] | {"scoring": "f1_macro"},
        test_log_loss=0.12345,
        test_calibration_error=0.021,
    )
    text = Page(write_report(folder)).text
    for words in (
        "cv f1_macro 0.9123 ± 0.0145, standard deviation of 4 folds",
        "test log loss 0.1235 calibration error 2.10 %",
        "Mean validation f1_macro of every candidate: the brighter, the better.",
        "All 20 candidates, best first by the mean f1_macro over the folds.",
        "fit time (s) as good 1 10 0.01 0.9000 0.0100 4.50 %",
    ):
        assert words in text


@pytest.mark.parametrize(
    ("n_wrong", "images", "words"),
    [
        (0, True, "Every test sample was classified correctly."),
        (2, True, "2 wrong test samples. Under each image: row: true → predicted."),
        (2, False, "2 wrong test samples. Wrong test samples row true predicted 0 zero one"),
        (130, True, "130 wrong test samples. The first 2 are shown; the table has more."),
    ],
)
def test_wrong_samples_are_counted_and_shown(make_run, n_wrong, images, words):
    folder = make_run()
    table = pd.DataFrame({"row": range(200), "true": 0, "predicted": 0})
    table.loc[: n_wrong - 1, "predicted"] = 1
    table.to_parquet(folder / "test_predictions.parquet")
    (folder / "test_errors.npz").unlink()
    if images:
        np.savez(folder / "test_errors.npz", row=[0, 1], X=np.zeros((2, 12), dtype=np.uint8))
    text = Page(write_report(folder)).text
    assert words in text
    assert f"{n_wrong - 1} zero one" in text or not n_wrong


def test_failures_are_counted_by_their_status_and_named(make_run):
    def fail(cells):
        lost = (cells["C"] == 1000) & (cells["gamma"] == 0.1)
        cells.loc[lost, "status"] = "failed: out of memory"
        cells = cells.astype({"n_errors": "Int64", "n_support": "Int64"})
        cells.loc[lost, ["error", "n_errors", "n_support"]] = np.nan
        cells.loc[
            (cells["C"] == 100) & (cells["gamma"] == 0.1) & (cells["fold"] == 2), "status"
        ] = "not converged"
        return cells

    page = Page(write_report(make_run(change=fail)))
    lost = "4 fits failed: out of memory"
    assert f"{lost} {lost} fit C = 1,000, gamma = 0.1, fold 0" in page.text
    assert "1 fit not converged fit C = 100, gamma = 0.1, fold 2" in page.text
    assert "20 1,000 0.1 – –" in page.text  # the candidate, ranked last


def test_a_run_of_failures_alone_has_a_page(make_run, edit_run):
    folder = make_run(change=lambda c: c.assign(error=np.nan, status="failed: out of memory"))
    edit_run(folder, best=None, test_error=None, status="stopped", reason="every candidate failed")
    text = Page(write_report(folder)).text
    assert "This run was stopped (every candidate failed)" in text
    assert "80 fits failed: out of memory" in text


def test_failures_are_read_from_the_record_where_there_are_no_cells(make_unfinished, edit_run):
    folder = make_unfinished("running")
    (folder / "journal.jsonl").unlink()
    cells = [{"C": 10.0, "gamma": 0.1, "fold": 3}]
    edit_run(folder, failures=[{"status": "failed: out of memory", "count": 2, "cells": cells}])
    text = Page(write_report(folder)).text
    assert "2 fits failed: out of memory fit C = 10, gamma = 0.1, fold 3 … and 1 more" in text
    assert figures_in(folder) == set()
    assert "No candidate has a score yet." in text
    assert "0 fits are here" in text


@pytest.mark.parametrize(
    ("status", "words"),
    [("running", "is still running"), ("stopped", "was stopped"), ("failed", "This run failed")],
)
def test_an_unfinished_run_draws_what_is_there(make_unfinished, status, words):
    folder = make_unfinished(status)
    text = Page(write_report(folder)).text
    assert figures_in(folder) == FIGURES - {"confusion_matrix"}
    assert f"{words}: 45 fits are here" in text
    assert "test error" not in text


@pytest.mark.parametrize(
    ("n_folds", "phrase", "not_drawn"),
    [
        (4, "The best is C = 10, gamma = 0.01.", set()),
        # One fold of four is no score, so there is no best gamma to draw.
        (1, "No candidate has a score yet.", {"fold_errors_best", "heat_map"}),
    ],
)
def test_a_single_candidate(make_run, n_folds, phrase, not_drawn):
    folder = make_run(C=(10.0,), gamma=(0.01,), change=lambda cells: cells.head(n_folds))
    text = Page(write_report(folder)).text
    assert FIGURES - figures_in(folder) == not_drawn
    assert "1 C × 1 gamma" in text
    assert phrase in text


def test_a_redraw_gives_equal_files(grid_page, tmp_path):
    folder = shutil.copytree(grid_page.parent, tmp_path / "run")
    first = {path.name: path.read_bytes() for path in folder.iterdir()}
    write_report(folder)
    second = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []
    assert not list(folder.glob("*.part"))


def test_the_readers_own_matplotlib_settings_do_not_matter(make_run, grid_page):
    import matplotlib

    folder, plain = make_run(), (grid_page.parent / "heat_map.svg").read_bytes()
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red", "svg.hashsalt": "x"}):
        write_report(folder)
    assert (folder / "heat_map.svg").read_bytes() == plain


def test_wrong_points_stand_by_their_margin_all_of_them_with_their_image(make_run):
    folder = make_run()
    predictions = pd.read_parquet(folder / "test_predictions.parquet")
    margins = [2.0, 0.5, 1.0, 3.0, 0.25, 0.75]
    predictions.assign(margin=margins).to_parquet(folder / "test_predictions.parquet")
    page = Page(write_report(folder))
    assert "2 wrong test samples, those of the largest margin first." in page.text
    assert "5: two → one 4: one → two" in page.text
    assert "margin 5 two one 0.750 4 one two 0.250" in page.text
    first, second = [
        image["src"] for image in page.all("img") if image["src"].startswith("data:image/png")
    ]
    shades = [
        np.asarray(Image.open(BytesIO(base64.b64decode(uri.split(",")[1]))))
        for uri in (first, second)
    ]
    assert shades[0].shape == (4, 3)
    assert shades[0].min() == 0  # the brightest pixel of all is the darkest ink
    assert shades[1].max() == 255


def test_the_page_leads_to_every_file_of_the_run_and_lists_no_figure(grid_page):
    links = [link["href"] for link in Page(grid_page).all("a") if link.get("class") is None]
    files = {path.name for path in grid_page.parent.iterdir()}
    files -= {f"{name}.{kind}" for name in FIGURES for kind in ("svg", "png")}
    assert {link for link in links if not link.startswith("#")} == files - {"report.html"}


def test_the_first_screen_warns_of_an_edge_with_the_command_that_widens(make_run, grid_page):
    inside = Page(grid_page).text
    assert "optimum may lie outside" not in inside
    folder = make_run(C=(0.1, 1.0), gamma=(1e-4, 1e-3, 1e-2), name="edge")
    edit_options(folder, n_c=2, log_c=[-1.0, 0.0], n_gamma=3, log_gamma=[-4.0, -2.0])
    first = Page(write_report(folder)).text.split("Candidates All", 1)[0]
    assert "the largest C and the largest gamma of the grid" in first
    assert f"To widen it by {6 * 4} fits:" in first
    assert "svm-grid --log-c -1 1 --n-c 3 --log-gamma -4 -1 --n-gamma 4" in first


def edit_options(folder, **options):
    record = json.loads((folder / "run.json").read_text())
    record["options"] |= options
    (folder / "run.json").write_text(json.dumps(record))
