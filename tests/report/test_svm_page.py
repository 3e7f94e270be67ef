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
    (found,) = [one for one in charts_of(report.sections()) if one.name == name]
    with figure_style():
        return found.draw()


def test_all_pieces_are_read(make_run):
    run = read_run(make_run())
    assert len(run.cells) == 5 * 4 * 4
    assert run.candidates["rank"].tolist() == list(range(1, 21))
    assert len(run.tasks) == 16
    assert {row["gamma"] for row in run.tasks[0].rows} == {1e-4}
    assert run.predictions is not None
    assert len(run.predictions) == 6
    assert {row: one.shape for row, one in run.wrong_images.items()} == {4: (4, 3), 5: (4, 3)}
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
    (shown,) = [one for one in axes.lines if one.get_gid() == "dots"]
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
    marks = {one.get_gid(): one.get_offsets() for one in axes.collections}
    assert set(marks) == {"draws", "failed", "best"}
    expected = run.points()
    there = expected[expected["score_mean"].notna()]
    assert len(marks["draws"]) == len(there) == 19
    assert len(marks["failed"]) == 1
    assert {*np.round(marks["draws"][:, 0], 9)} == {*there["C"].round(9)}
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
    assert "fold_errors_best" not in {one.name for one in charts_of(read_run(folder).sections())}


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
