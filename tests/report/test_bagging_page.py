import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipelines.errors import InputError
from pipelines.report import write_report
from pipelines.report.bagging_page import (
    N_BINS,
    BaggingReport,
    calibration_bins,
    kept_errors,
)
from pipelines.report.page import charts_of
from pipelines.run_folder.statistics import wilson

from .bagging_folder import RULE, write_bagging_run
from .page_reader import Page, figures_in


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_bagging_run(tmp_path / "run")


def edit(folder: Path, **changes: object) -> None:
    record = json.loads((folder / "run.json").read_text()) | changes
    kept = {key: value for key, value in record.items() if value is not None}
    (folder / "run.json").write_text(json.dumps(kept))


@pytest.mark.slow
def test_the_first_screen_has_the_answers_numbers(ensemble_page: Path) -> None:
    about = json.loads((ensemble_page.parent / "run.json").read_text())
    first = Page(ensemble_page).text.split("When not to trust", 1)[0]
    n_wrong = about["n_vote_errors"]
    assert first.startswith("Bagging of neural networks on digits")
    assert "6 members, each the best of 4 candidates, 3-fold cross-validation" in first
    error = f"{n_wrong / 120 * 100:.2f} %"
    assert f"The vote of 6 members has {error} error on the test set." in first
    assert f"{error} {n_wrong} of 120 test samples" in first
    n_deferred = 120 - about["selective_prediction"]["n_kept"]
    assert f"deferred to a human {n_deferred} of 120 test samples" in first
    assert f"best {about['members_best_test_error'] * 100:.2f} %" in first
    assert "calibration error 1.23 %" in first
    assert "finished in 1 min 01 s" in first
    text = Page(ensemble_page).text
    assert RULE in text
    assert "1 min 01 s for 72 cells" in text.split(" Time ")[-1]


def test_every_figure_is_in_the_page_and_beside_it(ensemble_page: Path) -> None:
    page, folder = Page(ensemble_page), ensemble_page.parent
    run = BaggingReport.read(folder)
    charts = [chart.name for chart in charts_of([*run.sections(), *run.last_sections()])]
    assert figures_in(folder) == set(charts)
    assert len(charts) == 9
    assert all(image["alt"] for image in page.all("img"))
    targets = {attributes["id"] for _, attributes in page.elements if attributes.get("id")}
    for link in page.all("a"):
        href = link["href"] or ""
        assert href[1:] in targets if href.startswith("#") else (folder / href).is_file()


def test_the_words_of_a_figure_say_what_the_ensemble_says(ensemble_page: Path) -> None:
    run = BaggingReport.read(ensemble_page.parent)
    (own,) = run.explained["own"]
    words = " ".join(image["alt"] or "" for image in Page(ensemble_page).all("img"))
    assert f"photo.png: vote {own.vote}, {own.n_agree} of 6 members" in words
    hard = run.explained["disagreement"][0]
    assert hard.deferred
    assert f"vote {hard.vote}, {hard.n_agree} of 6 members; defer to a human" in words


def test_members_are_a_table(ensemble_page: Path) -> None:
    text = Page(ensemble_page).text
    members = pd.read_csv(ensemble_page.parent / "members.csv")
    assert "member n conv layer kernel size n hidden layer learning rate" in text
    row = members.iloc[0]
    assert f"0 12 3 64 0.0123 0.32 {row.cv_loss:.3f}" in text
    assert f"0.00 % {row.test_error * 100:.2f} %" in text


def test_a_candidate_that_did_not_fit_is_named(ensemble_page: Path) -> None:
    text = Page(ensemble_page).text
    assert "3 cells failed: out of memory cell member 2, candidate 3, fold 0" in text


@pytest.mark.slow
def test_a_table_has_no_images(folder: Path) -> None:
    about = json.loads((folder / "run.json").read_text())
    edit(folder, dataset=about["dataset"] | {"image_shape": None})
    (folder / "test_errors.npz").unlink()
    run = BaggingReport.read(folder)
    assert run.explained["own"][0].image is None
    page = Page(write_report(folder))
    assert "test_errors" not in figures_in(folder)
    assert "Wrong test samples" in page.text


def test_a_stopped_run_draws_what_is_there(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name not in ("run.json", "journal.jsonl"):
            path.unlink()
    journal = folder / "journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    refit = json.loads(lines[0]) | {"task": "refit-member=0"}
    refit["rows"] = [refit["rows"][0] | {"fold": -1}]
    journal.write_text("".join(lines[:9]) + json.dumps(refit) + "\n" + lines[9][:80])
    late = dict.fromkeys(
        ("vote_test_error", "mean_test_error", "members_mean_test_error", "selective_prediction",
         "test_calibration_error", "busy_share", "n_cells")
    )  # fmt: skip
    edit(folder, status="stopped", reason="stopped on request", **late)
    page = Page(write_report(folder))
    assert figures_in(folder) == {"member_searches", "timeline"}
    run = BaggingReport.read(folder)
    assert len(run.candidates) == 9
    own = run.cells[(run.cells.member == 1) & (run.cells.candidate == 2)]
    found = run.candidates.set_index(["member", "candidate"]).loc[(1, 2)]
    assert found.loss_mean == pytest.approx(own.loss.mean())
    assert "This run was stopped (stopped on request): 27 of 72 cells are here" in page.text
    assert "No member has been refitted" in page.text


def test_no_code_runs_from_a_run_folder(folder: Path) -> None:
    with np.load(folder / "explained.npz", allow_pickle=False) as arrays:
        content = {name: arrays[name] for name in arrays}
    content["name"] = np.array([print] * 9, dtype=object)
    np.savez(folder / "explained.npz", **content)
    with pytest.raises(InputError, match=r"explained\.npz"):
        write_report(folder)


def test_calibration_bins_are_those_of_the_definition() -> None:
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
        found = bins.loc[number + 1]
        assert found["n"] == inside.sum()
        assert found["certainty"] == pytest.approx(certainty[inside].mean())
        assert found["right"] == pytest.approx(is_right[inside].mean())
        assert (found["low"], found["high"]) == wilson(int(is_right[inside].sum()), inside.sum())


def test_kept_errors_defer_the_least_certain_first() -> None:
    table = pd.DataFrame({"certainty": [0.9, 0.5, 0.9, 0.7], "true": 1, "predicted": [1, 0, 0, 1]})
    kept, errors = kept_errors(table)
    np.testing.assert_allclose(kept, [0.5, 0.75, 1.0])  # equals go together
    np.testing.assert_allclose(errors, [1 / 2, 1 / 3, 2 / 4])
