"""The memory model: what fits, and what is said when nothing does."""

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import path_cost
from pipelines.svm.cuda import launches
from pipelines.svm.cuda.hard import hard_shape
from pipelines.svm.cuda.launches import Launching
from pipelines.svm.cuda.memory import plan_memory
from pipelines.svm.kernel import Kernel
from pipelines.svm.search import search_folds
from pipelines.svm.settings import Settings

MNIST = {"sizes": [6_000] * 10, "n_features": 784, "n_C": 24, "n_gammas": 24, "n_folds": 5}


@pytest.mark.parametrize("decision", ["ovo", "ovr"])
def test_mnist_on_a_large_card_is_one_launch(decision):
    plan = plan_memory(**MNIST, one_vs_one=decision == "ovo", free_bytes=140 << 30)
    assert plan.whole
    assert plan.n_gammas == 24
    assert plan.n_bytes < 45e9


def test_a_smaller_card_takes_fewer_gammas():
    plan = plan_memory(**MNIST, one_vs_one=True, free_bytes=24 << 30)
    assert plan.whole
    assert 1 <= plan.n_gammas < 24
    assert plan.n_bytes <= 24 << 30


def test_pairs_where_all_products_do_not_fit():
    plan = plan_memory(**MNIST, one_vs_one=True, free_bytes=12 << 30)
    assert not plan.whole
    assert plan.n_gammas >= 1
    assert plan.n_bytes <= 12 << 30


@pytest.mark.parametrize(("decision", "free"), [("ovr", 12 << 30), ("ovo", 1 << 30)])
def test_too_little_says_how_much_and_what_to_do(decision, free):
    with pytest.raises(MemoryError, match=rf"decision='{decision}' needs .* got {free}; use"):
        plan_memory(**MNIST, one_vs_one=decision == "ovo", free_bytes=free)


DIGITS = {"sizes": [183, 182, *[179] * 8], "n_features": 64, "n_C": 10, "n_gammas": 2, "n_folds": 3}


@pytest.mark.parametrize("n_blocks", [264, 2112])
def test_the_state_of_the_blocks_shrinks_with_the_memory(n_blocks):
    """64 MiB hold the digits: blocks of rows are multiplied that fit, and few members kept."""
    plans = [
        plan_memory(
            **DIGITS,
            one_vs_one=True,
            free_bytes=m << 20,
            n_blocks=n_blocks,
            members=365,
            block_size=32,
        )
        for m in (32, 64, 4096)
    ]
    for plan, free in zip(plans, (32, 64, 4096), strict=True):
        assert plan.whole
        assert plan.n_bytes <= free << 20
        assert plan.n_blocks <= 270  # as many as there are problems
    members = [plan.members for plan in plans]
    assert members == sorted(members)
    assert members[0] >= 64
    assert members[-1] == 365
    products = [plan.product_rows for plan in plans]
    assert products == sorted(set(products))


@pytest.mark.parametrize("members", [64, 365])
def test_24_mib_of_the_gpu_check_are_for_pairs_alone(members):
    plan = plan_memory(
        **DIGITS,
        one_vs_one=True,
        free_bytes=24 << 20,
        n_blocks=2112,
        members=members,
        block_size=32,
    )
    assert not plan.whole


def test_blocks_are_given_up_where_the_least_members_do_not_fit():
    plan = plan_memory(**DIGITS, one_vs_one=True, free_bytes=16 << 20, block_size=32)
    assert plan.members == 64
    assert 1 <= plan.n_blocks < 264


TABLE = {"sizes": [4500] * 2, "n_features": 10, "n_C": 24, "n_gammas": 24, "n_folds": 5}


def test_what_hard_problems_take_is_counted():
    """For 120 blocks of 1,024 members 2 GB; 6 GiB hold fewer, 1 GiB none of 512 threads."""
    alone, both, fewer, none = (
        plan_memory(
            **TABLE, one_vs_one=True, free_bytes=g << 30, hard_members=members, block_size=threads
        )
        for g, members, threads in ((80, 0, 128), (80, 1024, 128), (6, 1024, 128), (1, 1024, 512))
    )
    assert (alone.hard_members, both.hard_members, none.hard_members) == (0, 1024, 0)
    taken = both.n_bytes - alone.n_bytes
    assert taken == 120 * 8 * 1024 * (2 * 1024 + 7) + 8 * 9000 * 10
    assert 64 <= fewer.hard_members < 1024
    assert fewer.n_bytes <= 6 << 30
    assert none.n_bytes <= 1 << 30


@pytest.mark.parametrize("decision", ["ovo", "ovr"])
def test_many_features_take_the_products_twice_where_they_fit(decision):
    """Else SMO has them alone before anything else is given up."""
    plans = [
        plan_memory(
            **MNIST, one_vs_one=decision == "ovo", free_bytes=g << 30, n_blocks=264, hard_members=m
        )
        for g, m in ((140, 0), (140, 1024), (24, 1024), (24, 0))
    ]
    alone, both, less, as_before = plans
    assert (both.hard_members, both.n_gammas) == (1024, 24)
    taken = both.n_bytes - alone.n_bytes
    assert taken == 264 * 8 * 1024 * (2 * 1024 + 7) + 4 * 60_000**2
    assert less == as_before


def test_more_memory_never_gives_less():
    plans = [plan_memory(**MNIST, one_vs_one=True, free_bytes=g << 30) for g in range(10, 80, 5)]
    sizes = [(plan.whole, plan.n_gammas) for plan in plans]
    assert [whole for whole, _ in sizes] == sorted(whole for whole, _ in sizes)
    for smaller, two in pairwise(plans):
        if smaller.whole == two.whole:
            assert smaller.n_gammas <= two.n_gammas


@pytest.mark.parametrize("name", path_cost.CARDS)
@pytest.mark.parametrize("decision", path_cost.LARGEST)
def test_what_is_predicted_is_the_launch_that_is_made(decision, name, monkeypatch):
    """Up to the launch: nothing is computed, and the large arrays are never touched."""
    launched, limit, n = [], path_cost.CARDS[name].limits, path_cost.ROWS
    no_arrays = SimpleNamespace(**vars(np))
    no_arrays.empty = lambda shape, dtype: np.broadcast_to(np.zeros((), dtype), shape)
    monkeypatch.setattr(launches, "launch", lambda *arguments: launched.append(arguments))
    monkeypatch.setattr(launches, "synchronise", lambda xp: None)
    monkeypatch.setattr(launches, "class_distances", lambda *_: np.ones((10, 10)))
    y = np.arange(n) % 10
    fold = np.arange(n) // 10 % path_cost.N_FOLDS
    folds = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(fold.max() + 1)]
    search, _ = search_folds(y, np.logspace(-3, 6, path_cost.N_C), folds, Settings(decision))
    predicted = path_cost.predict(decision, name)
    launching = Launching.for_rows(path_cost.LARGEST[decision])
    plan = plan_memory(
        **MNIST,
        one_vs_one=decision == "ovo",
        free_bytes=path_cost.CARDS[name].free_bytes,
        n_blocks=predicted["blocks"],
        members=predicted["members"],
        block_size=predicted["threads"],
        hard_members=launching.hard_width(predicted["members"], Kernel()),
    )
    assert plan.whole
    planned = plan.n_gammas, plan.n_blocks, plan.members, plan.hard_members
    assert planned == (24, *(predicted[key] for key in ("blocks", "members", "hard members")))
    gammas = np.logspace(-6, -2, 24)
    monkeypatch.setattr(launches, "_share_done", lambda *_: 1.0)
    solving = launches.solve_table(
        search,
        range(len(search.problems)),
        range(10),
        *2 * (np.broadcast_to(np.float32(0), (n, n)),),
        gammas,
        None,
        [search.empty_solutions() for _ in gammas],
        no_arrays,
        replace(launching, hard_members=plan.hard_members),
        limit,
    )
    assert list(solving) == [0.0] * (len(launched) - 2) + [1.0]  # the sums' launches, and this one
    _, blocks, threads, arguments, shared = launched[-1]
    assert [predicted[key] for key in ("threads", "blocks", "bytes", "jobs")] == [
        threads,
        blocks,
        shared,
        len(arguments[7]),
    ]
    assert predicted["members"] == arguments[17]
    assert hard_shape(predicted["hard members"]) == arguments[23].shape[1:]


@pytest.mark.parametrize(
    ("decision", "name", "noted", "by_newton"),
    [
        ("ovo", "A100", 13, 10),
        ("ovo", "H200", 9, 6),
        ("ovr", "A100", 104, 59),
        ("ovr", "H200", 70, 36),
    ],
)
def test_the_model_gives_the_seconds_of_the_notes(decision, name, noted, by_newton):
    assert round(path_cost.predict(decision, name)["solver"]) == by_newton
    predicted = path_cost.predict(decision, name, newton=False)
    assert round(predicted["solver"]) == noted
    now = path_cost.predict(decision, name, newton=False, one_triangle=True)
    assert predicted["longest path alone"] * 0.95 < now["longest path alone"] < now["solver"]
    assert 0.9 * predicted["solver"] < now["solver"] < predicted["solver"]
    assert now["memory"] < predicted["memory"]
