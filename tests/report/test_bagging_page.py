"""The page of an ensemble: of a kept run of two members, with samples of each group."""

import json

import numpy as np
import pandas as pd
import pytest

from pipelines.errors import InputError
from pipelines.pages.nn_bagging import N_BINS, calibration_bins, kept_errors
from pipelines.report import write_report
from pipelines.report.page import charts_of, read_run
from pipelines.run_folder.statistics import wilson

from .conftest import KEPT, write_ensemble
from .page_reader import Page, figures_in


def test_the_page_has_the_numbers_of_the_run(ensemble_page):
    first, rest = Page(ensemble_page).text.split("When not to trust a prediction", 1)
    assert first.startswith("Bagging of neural networks on digits")
    assert "2 members, each the best of 2 candidates, 2-fold cross-validation" in first
    assert "The vote of 2 members has 8.89 % error on the test set." in first
    assert "test error of the vote 8.89 % 16 of 180 test samples" in first
    assert "test error of a single member 27.78 % mean; best 10.00 %" in first
    assert "deferred to a human 96 of 180 test samples; 0.00 % error among the others" in first
    assert "calibration error 37.47 %" in first
    assert "member convolution layers kernel size hidden units learning rate" in first
    assert "0 6 5 48 0.0348 0.248 2.06 0.00 % 10.00 %" in first
    assert "Defer to a human: fewer than three in four members vote for the class" in rest
    assert "3.6 s for 8 fits" in rest.split(" Time ")[-1]


def test_every_figure_is_in_the_page_and_beside_it(ensemble_page):
    page, folder = Page(ensemble_page), ensemble_page.parent
    run = read_run(folder)
    charts = [chart.name for chart in charts_of([*run.sections(), *run.last_sections()])]
    assert figures_in(folder) == set(charts)
    assert len(charts) == 9
    words = " ".join(part.get("aria-label") or "" for part in page.all("div"))
    (sample,) = run.explained["own"]
    n_agree = int((sample.probabilities.argmax(axis=1) == sample.vote).sum())
    assert f"photo.png: vote {sample.vote}, {n_agree} of 2 members; defer to a human" in words


@pytest.mark.slow
def test_a_table_has_no_images(tmp_path):
    folder = write_ensemble(tmp_path / "run")
    about = json.loads((folder / "run.json").read_text())
    about["dataset"] |= {"image_shape": None}
    (folder / "run.json").write_text(json.dumps(about))
    assert read_run(folder).explained["own"][0].image is None
    assert "Under each image" not in Page(write_report(folder)).text


def test_a_refit_is_no_cell_of_a_stopped_run():
    run = read_run(KEPT / "nn_bagging-interrupted")
    assert sum(row["fold"] == -1 for task in run.tasks for row in task.rows) == 1
    assert (run.cells["fold"] >= 0).all()
    by_candidate = run.cells.groupby(["member", "candidate"])
    losses = run.candidates.set_index(["member", "candidate"])["loss_mean"]
    assert losses.dropna().to_dict() == by_candidate["loss"].mean()[losses.notna()].to_dict()


def test_candidates_that_are_not_in_the_table_are_counted(tmp_path, edit_run):
    folder = write_ensemble(tmp_path / "run")
    spent = {"name": "race", "n_candidates": 9, "fits": 20, "share_fits": 0, "grid_fits": 27}
    spent |= {"n_stopped": 3, "n_out_of_time": 0, "n_not_tried": 1, "parts": []}
    edit_run(folder, strategy=spent)
    words = "Of 9 candidates 3 stopped early, 1 not tried: what folds these have is in"
    assert f"{words} cv_results.parquet." in Page(write_report(folder)).text


def test_no_code_runs_from_a_run_folder(tmp_path):
    folder = write_ensemble(tmp_path / "run", name=np.array([print] * 6, dtype=object))
    with pytest.raises(InputError, match=r"explained\.npz"):
        write_report(folder)


def test_calibration_bins_are_those_of_the_definition():
    rng = np.random.default_rng(0)
    certainty = np.append(rng.random(500), [0.0, 1.0])
    is_right = rng.random(502) < certainty
    bins = calibration_bins(
        pd.DataFrame({"certainty_of_mean": certainty, "true": 1, "predicted_by_mean": is_right})
    )
    assert bins["n"].sum() == 502
    for number in range(N_BINS):
        inside = (certainty > number / N_BINS) & (certainty <= (number + 1) / N_BINS)
        inside |= (certainty == 0) & (number == 0)
        bin_row = bins.loc[number + 1]
        assert bin_row["n"] == inside.sum()
        assert bin_row["certainty"] == pytest.approx(certainty[inside].mean())
        assert bin_row["right"] == pytest.approx(is_right[inside].mean())
        assert (bin_row["low"], bin_row["high"]) == wilson(
            int(is_right[inside].sum()), inside.sum()
        )


def test_kept_errors_defer_the_least_certain_first():
    table = pd.DataFrame({"certainty": [0.9, 0.5, 0.9, 0.7], "true": 1, "predicted": [1, 0, 0, 1]})
    kept, errors = kept_errors(table)
    np.testing.assert_allclose(kept, [0.5, 0.75, 1.0])  # equals go together
    np.testing.assert_allclose(errors, [1 / 2, 1 / 3, 2 / 4])
