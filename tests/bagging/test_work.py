from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from pipelines.bagging.work import (
    PLACE,
    Trainings,
    bag,
    best_candidate,
    reduce_candidates,
    run_task,
    search_together,
    tabulate,
    tabulate_members,
    tasks_left,
)
from pipelines.data.placement import FoldedData
from pipelines.data.scaling import PIXELS_0_16
from pipelines.nn.fit import Refitted
from pipelines.nn.inputs import Inputs
from pipelines.nn.settings import Training
from pipelines.nn.space import SearchSpace
from pipelines.nn.tasks import CandidateTask
from pipelines.nn_bagging import Bagging, Options
from pipelines.run.tasks import InProcess, Outcome
from pipelines.search.ranking import failures

digits = load_digits()
X, y = digits.data[:200].astype(np.uint8), digits.target[:200].astype(np.int32)
DATA = FoldedData(X[:150], y[:150], X[150:], y[150:], (), PIXELS_0_16)


def plan_of(max_epochs: int = 2, memory_bytes: int | None = None) -> Trainings:
    return Trainings.draw(
        DATA.y,
        Inputs(64, 10, (8, 8)),
        SearchSpace.load("small"),
        Training(max_epochs=max_epochs, memory_bytes=memory_bytes),
        n_bootstrap=2,
        n_tuning=3,
        n_folds=2,
        seed=0,
    )


def rows(candidate: int, *losses: float | None) -> list[dict[str, Any]]:
    return [{"candidate": candidate, "loss": loss} for loss in losses]


def test_the_best_candidate_has_the_smallest_mean_loss() -> None:
    first, second, third = plan_of().candidates[:3]
    some = [first, second, third]
    assert best_candidate(some, [rows(0, 3, 1), rows(1, 1, 2), rows(2, 2, 2)]) == second
    assert best_candidate(some, [rows(0, 1, 2), rows(1, 2, 1), rows(2, 2, 2)]) == first  # a tie
    assert best_candidate(some, [rows(0, 1, 2), rows(1, 0, None), None]) == first
    assert best_candidate(some, [rows(0, None), rows(1, 0, None), None]) is None


def test_a_member_needs_its_own_candidates_alone() -> None:
    plan = plan_of()
    assert [task.name for task in plan.members] == ["refit-member=0", "refit-member=1"]
    assert plan.members[1].needs == tuple(f"nn-member=1 candidate={number}" for number in range(3))
    assert plan.members[1].cost < sum(task.cost for task in plan.candidates[3:])
    assert hash(plan.members[0]) != hash(plan.members[1])


def test_the_task_of_a_member_refits_the_best() -> None:
    plan = plan_of()
    member = plan.members[0]
    needed = [rows(0, 3, 3), rows(1, 1, 1), None]
    settings = {"inputs": plan.inputs, "training": plan.training}
    (made,) = run_task(DATA, member, needed, **settings)
    assert isinstance(made, Refitted)
    assert made.row["candidate"] == 1
    assert made.row["fold"] == -1
    assert made.test is not None
    assert made.test.probabilities.shape == (50, 10)
    with pytest.raises(RuntimeError, match="none of its candidates"):
        run_task(DATA, member, [None] * 3, **settings)


def everything(done: Any, refitted: Any, plan: Trainings | None = None) -> Iterator[Any]:
    return bag(InProcess(2), DATA, plan or plan_of(), done, refitted)


@pytest.fixture(scope="module")
def finished() -> list[tuple[Outcome[Any], list[dict[str, Any]], Any]]:
    return list(everything({}, {}))


def test_every_candidate_and_every_member_has_rows(finished: list[Any]) -> None:
    cells = [row for _, own, _ in finished for row in own if row["fold"] >= 0]
    assert len(cells) == 2 * 3 * 2
    assert {row["worker"] for row in cells} == {"in process"}
    made = {outcome.task.member: one for outcome, _, one in finished if one is not None}
    assert set(made) == {0, 1}
    assert made[0].test.probabilities.shape == (50, 10)


def test_what_is_done_is_left_out(finished: list[Any]) -> None:
    plan = plan_of()
    done = {o.task.name: own for o, own, _ in finished if isinstance(o.task, CandidateTask)}
    refits = {o.task.member: own[0] for o, own, made in finished if made is not None}
    refitted = {member: row["candidate"] for member, row in refits.items()}
    assert tasks_left(plan, done, refitted) == []
    assert len(tasks_left(plan, done, {0: refitted[0]})) == 1

    del done["nn-member=1 candidate=2"]
    again = list(everything(done, refitted))
    by_name = {outcome.task.name: (own, made) for outcome, own, made in again}
    assert set(by_name) == {"nn-member=1 candidate=2", "refit-member=1"}
    assert by_name["refit-member=1"] == ([], None)  # the best is the one that was refitted

    changed = {**refitted, 1: (refitted[1] + 1) % 3}
    again = list(everything(done, changed))
    (made,) = [made for _, _, made in again if made is not None]
    (before,) = [m for o, _, m in finished if m is not None and o.task.member == 1]
    np.testing.assert_array_equal(made.test.probabilities, before.test.probabilities)


def test_tables_of_candidates_and_members(finished: list[Any]) -> None:
    results = tabulate([row for _, own, _ in finished for row in own if row["fold"] >= 0])
    table = reduce_candidates(results, 2)
    assert table.groupby("member")["rank"].apply(list).tolist() == [[1, 2, 3], [1, 2, 3]]
    for member, own in results.groupby("member"):
        mean = own.groupby("candidate").loss.mean()
        best = table[(table.member == member) & table.is_best].iloc[0]
        assert best.candidate == mean.idxmin()
        assert best.loss_mean == pytest.approx(mean.min())
        spread = own[own.candidate == best.candidate].loss.std(ddof=0)
        assert best.loss_std == pytest.approx(spread)
    refits = {o.task.member: own[0] for o, own, made in finished if made is not None}
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


def test_candidates_that_do_not_fit_are_rows_that_say_so() -> None:
    plan = plan_of(memory_bytes=1000)
    found = list(everything({}, {}, plan))
    cells = tabulate([row for _, own, _ in found for row in own if row["fold"] >= 0])
    assert cells.status.str.fullmatch(r"failed: needs .* GiB, the device has .* GiB").all()
    errors = [outcome.error for outcome, *_ in found if outcome.error is not None]
    assert errors == ["RuntimeError: none of its candidates was trained on all its folds"] * 2
    assert failures(cells, PLACE)["n_failed"] == 12
    table = reduce_candidates(cells, 2)
    assert not table.is_best.any()


def test_candidates_of_an_architecture_are_trained_together_on_a_gpu_and_told_of_each() -> None:
    """As on a GPU, here on this CPU; with the rates of each."""
    plan = Trainings.draw(
        DATA.y,
        Inputs(64, 10, (8, 8)),
        SearchSpace.load("cnn"),
        Training.of("cnn", len(DATA.y), batch_size=32, max_epochs=2, device="gpu"),
        n_bootstrap=2,
        n_tuning=5,
        n_folds=2,
        seed=0,
    )
    done = {plan.candidates[1].name: [{"candidate": 1, "loss": 9.0, "fold": 0}] * 2}
    tasks = search_together(plan, tasks_left(plan, done, {}))
    assert [task.name for task in tasks] == [
        "nn-member=0 candidate=0,2",
        "nn-member=0 candidate=3,4",
        "nn-member=1 candidate=0,1,2",
        "nn-member=1 candidate=3,4",
        "refit-member=0",
        "refit-member=1",
    ]
    assert tasks[4].needs == tuple(
        f"nn-member=0 candidate={numbers}" for numbers in ("0,2", "1", "3,4")
    )
    assert [task.cost for task in tasks[4:]] == [task.cost for task in plan.members]
    on_cpu = replace(plan, training=replace(plan.training, device="cpu"))
    left = tasks_left(plan, done, {})
    assert search_together(on_cpu, left) == left

    group = tasks[2]
    settings = {"inputs": plan.inputs, "training": on_cpu.training}
    together = run_task(DATA, group, **settings)
    alone = [row for task in group.each for row in run_task(DATA, task, **settings)]
    assert len({row["learning_rate"] for row in together}) == 3
    for own, other in zip(together, alone, strict=True):
        assert [own[name] for name in PLACE] == [other[name] for name in PLACE]
        assert own["loss"] == pytest.approx(other["loss"], rel=5e-3)
        assert own["learning_rate"] == other["learning_rate"]


def test_each_candidate_of_a_group_has_its_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.bagging.work.leaves_idle", lambda *_: True)
    inputs = Inputs(64, 10, (8, 8))
    training = Training.of("cnn", len(DATA.y), batch_size=32, max_epochs=1)
    plan = Trainings.draw(
        DATA.y,
        inputs,
        SearchSpace.load("cnn"),
        training,
        n_bootstrap=1,
        n_tuning=3,
        n_folds=2,
        seed=0,
    )
    *searched, (refit, _, made) = everything({}, {}, plan)
    outcomes = [outcome for outcome, _, _ in searched]
    assert [outcome.task for outcome in outcomes] == plan.candidates
    assert [len(rows) for _, rows, _ in searched] == [2, 2, 2]
    for one, following in pairwise(outcomes):
        assert one.started + one.seconds == pytest.approx(following.started)
    losses = [np.mean([row["loss"] for row in rows]) for _, rows, _ in searched]
    assert made is not None
    assert made.row["candidate"] == np.argmin(losses)

    little = replace(plan, training=replace(training, memory_bytes=1000))
    *searched, (refit, _, made) = everything({}, {}, little)
    assert all(row["status"].startswith("failed: needs") for _, rows, _ in searched for row in rows)
    assert "none of its candidates" in str(refit.error)


def test_a_dry_run_counts_what_is_trained_together() -> None:
    job, options = Bagging(), Options(n_bootstrap=2, n_tuning=4, network="cnn", limit=100)
    plan = job.plan(options, job.load(options, "cuda"), {})
    assert [len(plan.tasks_for(kind, 4)) for kind in ("local", "cuda")] == [10, 4]
