"""The run folder of a grid search as its page reads and draws it."""

import json

import numpy as np
import pandas as pd
import pytest

from pipelines.pages.svm_grid import SvmRegressionReport
from pipelines.report import write_report
from pipelines.report.page import charts_of, read_run
from pipelines.report.style import figure_style

from .page_reader import Page, figures_in


def chart(report, name):
    (named_figure,) = [figure for figure in charts_of(report.sections()) if figure.name == name]
    with figure_style():
        return named_figure.draw()


def test_all_pieces_are_read(make_run):
    run = read_run(make_run())
    assert len(run.cells) == 5 * 4 * 4
    assert run.candidates["rank"].tolist() == list(range(1, 21))
    assert len(run.tasks) == 16
    assert {row["gamma"] for row in run.tasks[0].rows} == {1e-4}
    assert run.predictions is not None
    assert len(run.predictions) == 6
    assert {row: image.shape for row, image in run.wrong_images.items()} == {4: (4, 3), 5: (4, 3)}
    assert run.best is not None
    assert (run.best.C, run.best.gamma) == (10.0, 0.01)


def test_cells_and_candidates_of_a_stopped_run_come_from_its_journal(make_run, make_unfinished):
    finished = read_run(make_run(name="finished"))
    run = read_run(make_unfinished(n_tasks=9))

    assert len(run.cells) == 9 * 5
    # The journal has 9 tasks: two gammas with 4 folds each, and one fold of a third.
    assert sorted(run.candidates["gamma"].unique()) == [1e-4, 1e-3]
    both = run.candidates.merge(finished.candidates, on=["C", "gamma"], suffixes=("", "_finished"))
    assert len(both) == 10
    assert both["error_mean"].to_numpy() == pytest.approx(both["error_mean_finished"].to_numpy())
    assert both["error_std"].to_numpy() == pytest.approx(both["error_std_finished"].to_numpy())
    assert run.best is not None
    assert (run.best.C, run.best.gamma) == (10.0, 1e-3)


def test_a_cell_tried_again_counts_once_with_its_last_outcome(make_unfinished):
    folder = make_unfinished(n_tasks=8)
    path = folder / "journal.jsonl"
    lines = path.read_text().splitlines()[:8]
    failed = json.loads(lines[0])
    for row in failed["rows"]:
        row |= {"error": None, "status": "failed: out of memory"}
    path.write_text("\n".join([json.dumps(failed), *lines]) + "\n")
    run = read_run(folder)
    assert len(run.cells) == 8 * 5
    assert run.cells["error"].notna().all()
    assert sorted(task.n_failed for task in run.tasks)[-2:] == [0, 5]


def test_candidates_of_a_stopped_run_are_ranked_by_their_score_or_accuracy(make_unfinished):
    folder = make_unfinished(n_tasks=8)
    first = read_run(folder).candidates
    assert first["error_mean"].is_monotonic_increasing
    path = folder / "journal.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()[:8]]
    for line in lines:
        for row in line["rows"]:  # a scoring of another mind than accuracy
            row["score"] = row["error"]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert read_run(folder).candidates["error_mean"].is_monotonic_decreasing


def test_the_folds_of_every_C_are_drawn_at_the_best_gamma(make_run):
    run = read_run(make_run())
    axes = chart(run, "fold_errors_best").axes[0]
    (shown,) = [line for line in axes.lines if line.get_gid() == "dots"]
    at_best = run.cells[run.cells["gamma"] == 0.01]
    heights = shown.get_ydata()[::3]
    assert np.sort(heights) == pytest.approx(np.sort(at_best["error"]))


def test_the_map_has_the_mean_of_every_candidate(make_run):
    run = read_run(make_run())
    expected = run.cells.groupby(["gamma", "C"])["error"].mean().unstack()
    pd.testing.assert_frame_equal(run.means(), expected, check_names=False)


def test_a_search_of_numbers_is_read_and_drawn_by_its_scores(make_run, edit_run):
    def with_epsilon(cells):
        worse = cells.assign(epsilon=1.0, score=cells["score"] - 0.2)
        return pd.concat([cells.assign(epsilon=0.1), worse], ignore_index=True)

    folder = make_run(change=with_epsilon)
    for name in ("candidates.parquet", "test_predictions.parquet", "test_errors.npz"):
        (folder / name).unlink()
    record = json.loads((folder / "run.json").read_text())
    scores = {"r2": 0.87654, "neg_mean_absolute_error": -12.5}
    edit_run(
        folder,
        best=None,
        test_error=None,
        n_test_errors=None,
        test_scores=scores,
        dataset=record["dataset"] | {"task": "regression"},
    )
    pd.DataFrame({"row": [0, 1], "true": [1.0, 2.0], "predicted": [1.5, 2.0]}).to_parquet(
        folder / "test_residuals.parquet"
    )
    run = read_run(folder)
    assert isinstance(run, SvmRegressionReport)
    assert run.best is not None
    assert (run.best.C, run.best.gamma, run.best.epsilon) == (10.0, 0.01, 0.1)
    assert run.means().max().max() == pytest.approx(run.best.score_mean)
    page = Page(write_report(folder))
    assert "The best is C = 10, gamma = 0.01, epsilon = 0.1." in page.text
    assert "cv r2 0.9550 ± 0.0154" in page.text
    assert "test r2 0.8765" in page.text
    assert "test mean absolute error 12.5" in page.text, "the sign of scikit-learn's is undone"
    assert figures_in(folder) == {"heat_map", "fold_errors_best", "residuals", "timeline"}


def drawn_of(cells):
    """Cells of draws: each candidate with a C and a gamma of its own."""
    return cells.assign(C=cells["C"] * 1.1 ** cells["candidate"])


def test_draws_are_no_grid_and_stand_where_they_are(make_run, edit_run):
    def with_a_failure(cells):
        return drawn_of(cells.assign(error=cells["error"].where(cells["candidate"] != 3)))

    folder = make_run(change=with_a_failure)
    options = json.loads((folder / "run.json").read_text())["options"]
    none = {"n_c": None, "n_gamma": None}
    edit_run(folder, best=None, options={**options, **none, "strategy": "random", "n_iter": 20})
    run = read_run(folder)
    axes = chart(run, "heat_map").axes[0]
    marks = {collection.get_gid(): collection.get_offsets() for collection in axes.collections}
    assert set(marks) == {"draws", "failed", "best"}
    expected = run.points()
    scored_points = expected[expected["score_mean"].notna()]
    assert len(marks["draws"]) == len(scored_points) == 19
    assert len(marks["failed"]) == 1
    assert {*np.round(marks["draws"][:, 0], 9)} == {*scored_points["C"].round(9)}
    best = run.candidates.iloc[0]
    np.testing.assert_allclose(marks["best"], [[best["C"], best["gamma"]]])
    np.testing.assert_allclose(marks["draws"][-1], marks["best"][0], err_msg="no other hides it")
    page = Page(write_report(folder))
    assert "20 candidates drawn at random" in page.text
    assert "ringed in orange" in page.text
    assert "to widen it" not in page.text.lower()


def test_draws_of_one_c_each_have_no_chart_of_folds(make_run, edit_run):
    def plain(cells):
        return drawn_of(cells).assign(gamma=cells["gamma"] * 1.01 ** cells["candidate"])

    folder = make_run(change=plain)
    edit_run(folder, best=None, options={"strategy": "random", "folds": 4})
    assert "fold_errors_best" not in {
        figure.name for figure in charts_of(read_run(folder).sections())
    }


@pytest.mark.parametrize(
    ("C", "gamma"), [([1.0], [0.01, 0.3]), ([1.0, 7.0], [0.01]), ([3.0], [2.0])]
)
def test_one_value_of_an_axis_and_values_at_any_distance_are_drawn(make_run, edit_run, C, gamma):
    folder = make_run(C=C, gamma=gamma)
    edit_run(folder, options={"c": C, "gamma": ["scale", *gamma[1:]], "folds": 4})
    run = read_run(folder)
    assert run.size() == f"{len(C)} C × {len(gamma)} gamma"
    axes = chart(run, "heat_map").axes[0]
    assert axes.images[0].get_array().shape == (len(gamma), len(C))


def raced(folder, edit_run, state="stopped after 2 of 4 folds, 3.1 points behind", **spent):
    """Give up the smallest gamma of a run after two folds, and the largest C of the next."""
    cells = pd.read_parquet(folder / "cv_results.parquet")
    given_up = (cells["gamma"] == 1e-4) | ((cells["gamma"] == 1e-3) & (cells["C"] == 1000))
    on_a_share = cells[given_up & (cells["fold"] == 0)].assign(share=1 / 3, fold=-1, score=0.1)
    kept = pd.concat([cells[~given_up | (cells["fold"] < 2)], on_a_share], ignore_index=True)
    kept.to_parquet(folder / "cv_results.parquet")
    table = pd.read_parquet(folder / "candidates.parquet")
    lost = (table["gamma"] == 1e-4) | ((table["gamma"] == 1e-3) & (table["C"] == 1000))
    table = table.assign(score_part=table["score_mean"], behind=np.nan, stopped="")
    table.loc[lost, ["stopped", "behind"]] = state, 0.031
    table.loc[lost, "n_ok"] = 2
    table.loc[lost, ["score_mean", "score_std", "error_mean", "error_std"]] = np.nan
    table = table.sort_values("score_mean", ascending=False, ignore_index=True)
    table.assign(rank=range(1, 21)).to_parquet(folder / "candidates.parquet")
    strategy = {"name": "race", "n_candidates": 20, "fits": 68, "share_fits": 6, "grid_fits": 80}
    strategy |= {"n_stopped": 6, "n_out_of_time": 0, "n_not_tried": 0}
    strategy["parts"] = [
        {"share": 1 / 3, "fits": 6, "seconds": 3.0},
        {"share": 1.0, "fits": 68, "seconds": 66.0},
    ]
    edit_run(folder, strategy=strategy | spent)
    return folder


def test_candidates_that_were_given_up_keep_their_state(make_run, edit_run):
    folder = raced(make_run(), edit_run)
    run = read_run(folder)
    assert len(run.cells) == 68, "fits on a share of the rows are no cells"
    assert len(pd.read_parquet(folder / "cv_results.parquet")) == 74
    page = Page(write_report(folder))
    assert "fits 68 of 80 race: 6 candidates stopped early; and 6 fits on 1/3 of the rows" in (
        page.text
    )
    assert "6 candidates were not tried on all folds" in page.text
    assert page.text.count("stopped after 2 of 4 folds, 3.1 points behind") == 6
    assert "error of a part" in page.text


def test_what_was_given_up_is_hatched_and_no_mean(make_run, edit_run):
    run = read_run(raced(make_run(), edit_run))
    assert run.means().loc[1e-4].isna().all()
    assert run.means().loc[1e-3].notna().tolist() == [True] * 4 + [False]
    figure = chart(run, "heat_map")
    assert any(patch.get_gid() == "given up" for patch in figure.axes[0].patches)
    (map_,) = [figure for figure in charts_of(run.sections()) if figure.name == "heat_map"]
    assert "What is hatched was given up" in map_.caption
    plain = read_run(make_run(name="plain"))
    (map_,) = [figure for figure in charts_of(plain.sections()) if figure.name == "heat_map"]
    assert "hatched" not in map_.caption


def test_folds_of_the_best_gamma_are_those_that_were_tried(make_run, edit_run):
    folder = make_run()
    raced(folder, edit_run)
    record = json.loads((folder / "run.json").read_text())
    edit_run(folder, best=record["best"] | {"gamma": 1e-3})
    (folds,) = [
        figure
        for figure in charts_of(read_run(folder).sections())
        if figure.name == "fold_errors_best"
    ]
    assert "A C that was not tried on all folds" in folds.caption
    (dots,) = [
        line
        for line in chart(read_run(folder), "fold_errors_best").axes[0].lines
        if line.get_gid() == "dots"
    ]
    assert len(dots.get_xydata()) == 3 * (4 * 4 + 2)


def test_what_time_left_is_said_with_how_to_go_on(make_run, edit_run):
    folder = make_run()
    options = json.loads((folder / "run.json").read_text())["options"]
    raced(folder, edit_run, "not tried", name="grid", n_stopped=0, n_not_tried=6)
    edit_run(folder, options=options | {"time_budget": 600.0})
    page = Page(write_report(folder))
    assert "Not tried: 6 of 20 candidates: the time budget of 10:00 min ended." in page.text
    assert f"svm-grid --resume {folder}" in page.text
