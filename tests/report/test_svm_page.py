import json

import numpy as np
import pandas as pd
import pytest

from pipelines.errors import InputError
from pipelines.report.svm_page import candidates_of, read_svm_run
from pipelines.search.ranking import reduce_scores


def test_all_pieces_are_read(make_run):
    run = read_svm_run(make_run())
    assert len(run.cells) == 5 * 4 * 4
    assert run.candidates["rank"].tolist() == list(range(1, 21))
    assert len(run.tasks) == 16
    assert {row["gamma"] for row in run.tasks[0].rows} == {1e-4}
    assert run.predictions is not None
    assert len(run.predictions) == 6
    assert run.wrong_images is not None
    assert run.wrong_images.images.shape == (2, 4, 3)
    assert run.best is not None
    assert (run.best.C, run.best.gamma) == (10.0, 0.01)


def test_a_journal_cut_anywhere_in_its_last_line_gives_the_whole_lines(make_run):
    folder = make_run()
    journal = folder / "journal.jsonl"
    whole = journal.read_bytes()
    start = whole.rstrip().rfind(b"\n") + 1
    for end in (start + 1, start + 40, len(whole) - 3):
        journal.write_bytes(whole[:end])
        assert len(read_svm_run(folder).tasks) == 15
    journal.write_bytes(whole[:start] + "é".encode()[:1])
    assert len(read_svm_run(folder).tasks) == 15


def test_lines_that_are_no_task_are_passed_over(make_run):
    folder = make_run()
    with (folder / "journal.jsonl").open("a") as journal:
        journal.write('[]\n{"task": "x"}\n{"started": "now", "seconds": 1}\nnull\n\n')
        journal.write('{"task": "y", "worker": "w", "started": 1, "seconds": 1, "rows": [3]}\n')
    assert len(read_svm_run(folder).tasks) == 16


def test_cells_and_candidates_of_a_stopped_run_come_from_its_journal(make_run, make_unfinished):
    finished = read_svm_run(make_run(name="finished"))
    run = read_svm_run(make_unfinished(n_tasks=9))

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
    run = read_svm_run(folder)
    assert len(run.cells) == 8 * 5
    assert run.cells["error"].notna().all()
    assert sorted(task.n_failed for task in run.tasks)[-2:] == [0, 5]


def test_ties_go_to_the_smaller_C_then_the_smaller_gamma():
    cells = pd.DataFrame(
        {"C": [10, 1, 1, 10], "gamma": [0.1, 0.2, 0.1, 0.2], "fold": 0, "error": [0.1] * 4}
    )
    ranked = candidates_of(cells, 1)
    assert ranked[["C", "gamma"]].to_numpy().tolist() == [[1, 0.1], [1, 0.2], [10, 0.1], [10, 0.2]]


def test_the_best_has_the_highest_mean_score_as_the_run_ranks_them():
    cells = pd.DataFrame(
        {
            "C": [1, 1, 10, 10, 100, 100],
            "gamma": 0.1,
            "fold": [0, 1] * 3,
            "error": [0.1, 0.1, 0.2, 0.2, np.nan, 0.0],
            "score": [0.5, 0.6, 0.9, 0.7, np.nan, 1.0],
        }
    )
    ranked = candidates_of(cells, 2)
    own = reduce_scores(cells, ["C", "gamma"], 2)
    assert ranked["C"].tolist() == [10, 1, 100]
    pd.testing.assert_frame_equal(ranked[list(own)].reset_index(drop=True), own, check_dtype=False)


def test_a_candidate_with_a_failed_fold_ranks_last_and_an_unfinished_one_not_at_all():
    cells = pd.DataFrame(
        {
            "C": [1, 1, 10, 10, 100],
            "gamma": 0.1,
            "fold": [0, 1, 0, 1, 0],
            "error": [np.nan, 0.1, 0.3, 0.5, 0.0],
        }
    )
    ranked = candidates_of(cells, 2)
    assert ranked["C"].tolist() == [10, 1]
    assert ranked["error_mean"].tolist()[0] == pytest.approx(0.4)
    assert np.isnan(ranked["error_mean"].tolist()[1])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("run.json", b"{"),
        ("run.json", b"[1]"),
        ("run.json", b"\xff\xfe"),
        ("cv_results.parquet", b"PAR1 cut short"),
        ("candidates.parquet", b""),
        ("test_errors.npz", b"no zip"),
    ],
)
def test_a_damaged_file_is_named_in_one_line(make_run, name, content):
    folder = make_run()
    (folder / name).write_bytes(content)
    with pytest.raises(InputError) as raised:
        read_svm_run(folder)
    message = str(raised.value)
    assert message.startswith("RUN must")
    assert str(folder / name) in message
    assert "\n" not in message


def test_a_table_without_its_columns_is_damaged(make_run):
    folder = make_run()
    pd.DataFrame({"C": [1.0]}).to_parquet(folder / "candidates.parquet")
    with pytest.raises(InputError, match="no gamma, error_mean"):
        read_svm_run(folder)


def test_images_of_another_shape_are_damaged(make_run, edit_run):
    folder = make_run()
    record = json.loads((folder / "run.json").read_text())
    edit_run(folder, dataset=record["dataset"] | {"image_shape": [28, 28]})
    with pytest.raises(InputError, match="28 x 28 images"):
        read_svm_run(folder)
