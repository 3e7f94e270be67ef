"""The work of an ensemble: what is searched, what is refitted, and what becomes of either."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from pipelines.bagging.record import CELL
from pipelines.bagging.work import (
    NOTHING,
    Refits,
    Trainings,
    best_candidate,
    reduce_candidates,
    refitted_of,
    run_member_task,
    run_trainings,
    tabulate_cells,
    tabulate_members,
)
from pipelines.data.fits import Progress
from pipelines.data.placement import FoldedData
from pipelines.data.scaling import PIXELS_0_16
from pipelines.nn.batched_fit import Refitted
from pipelines.nn.inputs import Inputs
from pipelines.nn.settings import TrainingSettings
from pipelines.nn.space import SearchSpace
from pipelines.nn_bagging import Bagging, Options
from pipelines.run.runners import InProcess
from pipelines.search.candidates import Candidate
from pipelines.search.ranking import failures
from pipelines.search.tasks import CellKey, Row, Task, cell_key_of, task_rows

digits = load_digits()
X, y = digits.data[:200].astype(np.uint8), digits.target[:200].astype(np.int32)
DATA = FoldedData(X[:150], y[:150], X[150:], y[150:], (), PIXELS_0_16)
INPUTS = Inputs(64, 10, (8, 8))


def plan_of(space="small", training=None, **counts):
    settings = {"n_bootstrap": 2, "n_tuning": 3, "n_folds": 2, "seed": 0} | counts
    training = training or TrainingSettings(max_epochs=2)
    return Trainings.draw(DATA.y, INPUTS, SearchSpace.load(space), training, **settings)


def tasks_of(plan, *done):
    """Those that are handed out at first, and the refits that wait."""
    feed = plan.feed(plan.problem(DATA), 1, *done)
    return [*feed(0), *feed.waiting]


def rows(plan, candidate, *losses):
    """As the engine gives them, of the first member."""
    problem = plan.problem(DATA)
    new_rows = []
    for split, loss in enumerate(losses):
        row = {"member": 0, "candidate": candidate, "split": split, "fold": split, "share": 1.0}
        row |= {"algorithm": "conv", "params": "{}", "stage": "member=0", "loss": loss}
        row |= {"score": None if loss is None else -loss, "error": 0.5, "status": "ok"}
        row |= {"n_train": 1, "n_validation": 1, "n_fits": 1, "n_steps": 0, "n_steps_made": 0}
        new_rows.append(row)
    assert problem.of("member=0").candidates[candidate].parameters["member"] == 0
    return new_rows


def test_a_run_is_laid_out_from_one_seed():
    plan = plan_of()
    assert [len(networks) for networks in plan.candidates] == [3, 3]
    drawn = [network.random_state for networks in plan.candidates for network in networks]
    assert len({*drawn, *plan.seeds}) == 8
    tasks = tasks_of(plan)
    assert len({task.name for task in tasks}) == 8
    assert all(task.cost > 0 for task in tasks)
    # More of either leaves what was there as it was.
    larger_plan = plan_of(n_bootstrap=3, n_tuning=5)
    assert [networks[:3] for networks in larger_plan.candidates[:2]] == plan.candidates
    assert larger_plan.seeds[:2] == plan.seeds


def test_workers_train_and_score_without_scikit_learn():
    """Its import takes longer than the first candidates."""
    program = """
import sys

import numpy as np

from pipelines.bagging.work import Trainings, run_member_task
from pipelines.data.fits import Progress
from pipelines.data.placement import FoldedData
from pipelines.data.scaling import Scaling
from pipelines.nn.inputs import Inputs
from pipelines.nn.settings import TrainingSettings
from pipelines.nn.space import SearchSpace
from pipelines.search.tasks import make_tasks

X, space, counts = np.eye(60, 4), SearchSpace.load("table"), {"n_bootstrap": 1, "n_tuning": 1}
for n_classes, y in (2, np.arange(60, dtype=np.int32) % 2), (0, np.arange(60.0)):
    training = TrainingSettings.of("table", 60, is_regression=not n_classes, max_epochs=2)
    plan = Trainings.draw(y, Inputs(4, n_classes), space, training, **counts, n_folds=2, seed=0)
    problem = plan.problem(FoldedData(X, y, X[:0], y[:0], (), Scaling("standardise")))
    tasks, fits = make_tasks(problem, "member=0"), plan.shared_fit
    rows = [row for task in tasks for row in run_member_task(problem, task, shared_fit=fits)]
    print(*(row["score"] < 0 for row in rows if not isinstance(row, Progress)))
print("sklearn" in sys.modules)
"""
    process = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout.split() == ["True"] * 4 + ["False"]


def test_the_best_candidate_has_the_smallest_mean_loss():
    plan = plan_of()
    problem = plan.problem(DATA)

    def best(*losses):
        candidate_rows = [
            row
            for number, fold_losses in enumerate(losses)
            for row in rows(plan, number, *fold_losses)
        ]
        return best_candidate(candidate_rows, "member=0", problem)

    assert best((3, 1), (1, 2), (2, 2)) == 1
    assert best((1, 2), (2, 1), (2, 2)) == 0  # a tie
    assert best((1, 2), (0, None), ()) == 0
    assert best((1,), (0, None), ()) is None
    assert best() is None


def test_a_refit_is_handed_out_when_its_own_candidates_are_done():
    plan = plan_of()
    feed = plan.feed(plan.problem(DATA))
    searches = feed(0)
    assert sorted(task.stage for task in searches) == ["member=0"] * 3 + ["member=1"] * 3
    assert [task.name for task in feed.waiting] == ["refit-member=0", "refit-member=1"]
    assert feed.waiting[1].cost < sum(task.cost for task in searches) / 2
    feed.tell([*rows(plan, 0, 3, 3), *rows(plan, 1, 1, 1), *rows(plan, 2, 2)])
    assert feed(3) == []
    feed.tell([rows(plan, 2, 2, None)[1]])
    (task,) = feed(3)
    assert (task.name, task.number) == ("refit-member=0", 1)
    assert task.candidates == (plan.problem(DATA).parts["member=0"].candidates[1],)
    assert [task.name for task in feed.waiting] == ["refit-member=1"]
    assert hash(task) != hash(feed.waiting[0])


def test_a_member_without_a_candidate_on_all_folds_is_not_refitted():
    plan = plan_of()
    feed = plan.feed(plan.problem(DATA))
    feed(0)
    feed.tell([row for number in range(3) for row in rows(plan, number, 3, None)])
    assert feed(3) == []
    assert feed.without_best == ["member=0"]
    assert [task.name for task in feed.waiting] == ["refit-member=1"]


def test_the_task_of_a_member_refits_the_best():
    plan = plan_of()
    problem = plan.problem(DATA)
    feed = plan.feed(problem)
    feed(0)
    feed.tell([row for number in range(3) for row in rows(plan, number, 3 - number, 3)])
    (task,) = feed(3)
    *progress, (row, refit) = run_member_task(problem, task, shared_fit=plan.shared_fit)
    assert all(isinstance(message, Progress) for message in progress)
    assert isinstance(refit, Refitted)
    assert row["candidate"] == 2
    assert row["fold"] == -1
    assert refit.test is not None
    assert refit.test.outputs.shape == (50, 10)


Finished = tuple[list[Any], dict[CellKey, Row], dict[int, Row], dict[int, Any]]


def everything(plan, done=None, refitted=None):
    """Outcomes, rows of candidates, rows of refits, and what these gave, by member."""
    problem = plan.problem(DATA)
    feed = plan.feed(problem, 2, done or {}, refitted or {})
    outcomes, cells, refits, members = [], dict[CellKey, Row](), dict[int, Row](), dict[int, Any]()
    for event, new_rows in run_trainings(plan.shared_fit, InProcess(2), problem, feed):
        outcomes.append(event)
        results = refitted_of(event)
        members |= {row["member"]: refitted for row, refitted in results}
        if results:
            refits |= {row["member"]: row for row in new_rows}
        else:
            cells |= {cell_key_of(row): row for row in new_rows}
    return outcomes, cells, refits, members


@pytest.fixture(scope="module")
def finished():
    return everything(plan_of())


def test_every_candidate_and_every_member_has_rows(finished):
    _, cells, refits, members = finished
    assert len(cells) == 2 * 3 * 2
    assert {row["worker"] for row in cells.values()} == {"in process"}
    assert set(refits) == set(members) == {0, 1}
    assert members[0].test.outputs.shape == (50, 10)


def test_what_is_done_is_left_out(finished):
    plan, (_, cells, refits, members) = plan_of(), finished
    refitted = {f"member={member}": row["candidate"] for member, row in refits.items()}
    assert tasks_of(plan, cells, refitted) == []
    first = {"member=0": refitted["member=0"]}
    assert [task.name for task in tasks_of(plan, cells, first)] == ["refit-member=1"]

    less = {cell_key: row for cell_key, row in cells.items() if cell_key[:2] != ("member=1", 2)}
    outcomes, again, _, new_members = everything(plan, less, refitted)
    names = {event.task.name for event in outcomes}
    assert names == {"conv-member=1 candidate=2 2 folds"}
    assert {cell_key: row["loss"] for cell_key, row in again.items()} == {
        cell_key: cells[cell_key]["loss"] for cell_key in cells if cell_key not in less
    }
    assert new_members == {}  # the best is the one that was refitted

    changed = refitted | {"member=1": (refitted["member=1"] + 1) % 3}
    _, _, _, new_members = everything(plan, less, changed)
    np.testing.assert_array_equal(new_members[1].test.outputs, members[1].test.outputs)


Losses = Callable[[Candidate, int], float | None]


def play(
    plan,
    loss,
    order=None,
    known_cells=NOTHING,
):
    """Carry out searches whose losses are made up, one task after another; and the refits."""
    feed = plan.feed(plan.problem(DATA), 2, known_cells)
    waiting, refits = list[Any](), list[Refits]()
    while True:
        for task in feed(len(waiting)):
            (refits if isinstance(task, Refits) else waiting).append(task)
        if not waiting:
            return feed, refits
        task = waiting.pop(0 if order is None else int(order.integers(len(waiting))))
        part = feed.problem.of(task.stage)
        new_rows = list[Row]()
        for stage, number, split, _ in task.cell_keys:
            candidate = part.candidate(task, number)
            assert number not in task.drawn or candidate == part.candidates[number]
            (row,) = rows(plan.with_strategy("random"), 0, loss(candidate, split))
            row |= {"candidate": number, "split": split, "fold": split, "stage": stage}
            new_rows.append(row | {"params": candidate.text} | dict(candidate.parameters))
        feed.tell(new_rows)


def of_rate(candidate, split):
    """Smallest at a learning rate of 0.02."""
    return abs(np.log10(candidate.parameters["learning_rate"]) + 1.7) + 0.01 * split


def test_candidates_that_are_clearly_behind_are_dropped():
    plan = plan_of(n_bootstrap=3, n_tuning=8, n_folds=5).with_strategy("race")
    feed, refits = play(plan, of_rate)
    again, _ = play(plan, of_rate, np.random.default_rng(0))
    assert feed.rows.keys() == again.rows.keys()
    assert 3 * 8 * 2 <= len(feed.rows) < 3 * 8 * 3
    assert {share for *_, share in feed.rows} == {1.0}
    whole, chosen = play(plan.with_strategy("random"), of_rate)
    assert len(whole.rows) == 3 * 8 * 5
    by_stage = {task.stages: task.number for task in refits}
    assert by_stage == {task.stages: task.number for task in chosen}


def test_candidates_are_drawn_where_earlier_ones_were_good():
    pytest.importorskip("optuna", reason="the extra tpe is not installed")
    plan = plan_of("study", n_tuning=20).with_strategy("tpe")
    feed, refits = play(plan, of_rate)
    drawn = {stage: feed.problem.parts[stage].candidates for stage in plan.stages}
    for stage, networks in zip(plan.stages, plan.candidates, strict=True):
        seeds = [network.random_state for network in networks]
        assert [candidate.estimator.random_state for candidate in drawn[stage]] == seeds
        assert all(1 <= candidate.parameters["n_conv_layer"] <= 999 for candidate in drawn[stage])
        rates = [candidate.parameters["learning_rate"] for candidate in drawn[stage]]
        random = [network.spec.learning_rate for network in networks]
        near = [abs(np.log10(sample[10:]) + 1.7).mean() for sample in (rates, random)]
        assert near[0] < near[1] / 1.5
    assert drawn["member=0"] != drawn["member=1"]
    (first, _) = refits
    assert first.candidates == (drawn[first.stages[0]][first.number],)

    other, _ = play(plan, of_rate, np.random.default_rng(0))
    half = {cell_key: row for cell_key, row in feed.done.items() if cell_key[1] < 9}
    resumed, _ = play(plan, of_rate, None, half)
    for other_feed in (other, resumed):
        assert {stage: other_feed.problem.parts[stage].candidates for stage in plan.stages} == drawn
        assert other_feed.rows.keys() == feed.rows.keys()


def test_rows_of_what_is_no_longer_drawn_are_not_taken_for_others():
    """A fit that failed is done again, and what follows it may be drawn otherwise then."""
    pytest.importorskip("optuna", reason="the extra tpe is not installed")
    plan = plan_of("study", n_bootstrap=1, n_tuning=16).with_strategy("tpe")
    second = plan.candidates[0][1].random_state

    def fails(candidate, split):
        return None if candidate.estimator.random_state == second else of_rate(candidate, split)

    before, _ = play(plan, fails)
    kept = {cell_key: row for cell_key, row in before.done.items() if row["score"] is not None}
    assert len(kept) == 2 * 15
    after, _ = play(plan, of_rate, None, kept)
    whole, _ = play(plan, of_rate)
    candidates = after.problem.parts["member=0"].candidates
    assert candidates == whole.problem.parts["member=0"].candidates
    assert candidates != before.problem.parts["member=0"].candidates
    assert len(after.rows) == 2 * 16
    assert all(
        row["params"] == candidates[cell_key[1]].text for cell_key, row in after.rows.items()
    )


def test_tables_of_candidates_and_members(finished):
    _, cells, refits, _ = finished
    results = tabulate_cells(cells.values())
    table = reduce_candidates(results, 2)
    assert table.groupby("member")["rank"].apply(list).tolist() == [[1, 2, 3], [1, 2, 3]]
    for member, member_rows in results.groupby("member"):
        mean = member_rows.groupby("candidate").loss.mean()
        best = table[(table.member == member) & table.is_best].iloc[0]
        assert best.candidate == mean.idxmin()
        assert best.loss_mean == pytest.approx(mean.min())
        spread = member_rows[member_rows.candidate == best.candidate].loss.std(ddof=0)
        assert best.loss_std == pytest.approx(spread)
    members = tabulate_members(table, refits, {0: 0.25, 1: 0.5})
    assert list(members)[:6] == [
        "member",
        "n_conv_layer",
        "kernel_size",
        "n_hidden_layer",
        "learning_rate",
        "momentum",
    ]
    assert members.test_error.tolist() == [0.25, 0.5]
    assert members.out_of_bag_error[0] == refits[0]["error"]
    assert members.training_error[1] == refits[1]["training_error"]


def test_candidates_that_do_not_fit_are_rows_that_say_so():
    outcomes, rows_of_cells, refits, _ = everything(
        plan_of(training=TrainingSettings(max_epochs=2, memory_bytes=1000))
    )
    cells = tabulate_cells(rows_of_cells.values())
    assert cells.status.str.fullmatch(r"failed: needs .* GiB, the device has .* GiB").all()
    assert not any(isinstance(event.task, Refits) for event in outcomes)
    assert failures(cells, CELL)["n_failed"] == 12
    assert refits == {}
    table = reduce_candidates(cells, 2)
    assert not table.is_best.any()


def test_candidates_of_an_architecture_are_trained_together_on_a_gpu():
    """As on a GPU, here on this CPU; with the rates of each."""
    training = TrainingSettings.of("cnn", len(DATA.y), batch_size=32, max_epochs=2, device="gpu")
    plan = plan_of("cnn", training, n_tuning=5)
    problem = plan.problem(DATA)
    done = {("member=0", 1, fold, 1.0): rows(plan, 1, 9.0, 9.0)[fold] for fold in range(2)}
    searches = [task for task in tasks_of(plan, done) if isinstance(task, Task)]
    searches.sort(key=lambda task: (task.stage, task.members))
    assert [(task.stage, task.members) for task in searches] == [
        ("member=0", (0, 2)),
        ("member=0", (3, 4)),
        ("member=1", (0, 1, 2)),
        ("member=1", (3, 4)),
    ]
    on_cpu = replace(plan, training=replace(training, device="cpu"))
    problem = on_cpu.problem(DATA)
    alone = [task for task in tasks_of(on_cpu) if isinstance(task, Task)]
    alone.sort(key=lambda task: (task.stage, task.members))
    assert [task.members for task in alone] == [(number,) for number in range(5)] * 2

    together = task_rows(problem, searches[2])
    by_one = {cell_key_of(row): row for task in alone[5:8] for row in task_rows(problem, task)}
    assert len({row["learning_rate"] for row in together}) == 3
    for group_row in together:
        other = by_one.pop(cell_key_of(group_row))
        assert group_row["loss"] == pytest.approx(other["loss"], rel=5e-3)
        assert group_row["learning_rate"] == other["learning_rate"]
    assert by_one == {}


def test_other_scores_may_choose():
    plan = plan_of()
    problem = plan.problem(DATA, ["balanced_accuracy", "roc_auc_ovr"])
    task = tasks_of(plan)[0]
    assert isinstance(task, Task)
    by_loss = task_rows(plan.problem(DATA), task)
    for row, other in zip(task_rows(problem, task), by_loss, strict=True):
        assert row["status"] == "ok"
        assert 0 <= row["score"] <= 1
        assert 0 <= row["score_roc_auc_ovr"] <= 1
        assert row["loss"] == other["loss"] == -other["score"]
        assert row["score_neg_log_loss"] == pytest.approx(-row["loss"], rel=1e-5)


def test_a_dry_run_counts_what_is_trained_together():
    job, options = Bagging(), Options(n_bootstrap=2, n_tuning=4, network="cnn", limit=100)
    plan = job.plan(options, job.load(options, "cuda"), {})
    assert [len(plan.tasks_for(kind, 4)) for kind in ("local", "cuda")] == [10, 4]
