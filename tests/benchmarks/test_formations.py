"""The study's static cuts beside one queue: by hand on small cases, and on two small formations."""

from __future__ import annotations

import json
from multiprocessing.pool import ThreadPool

import pytest

from benchmarks import formations
from benchmarks.formations import Unit


def units_of(*seconds):
    return [Unit(f"unit-{number}", taken) for number, taken in enumerate(seconds)]


def test_the_list_is_cut_in_order_into_nearly_equal_pieces():
    units = units_of(*range(1, 11))
    pieces = formations.static_cut(units, 3)
    assert [len(piece) for piece in pieces] == [3, 4, 3]
    assert [unit for piece in pieces for unit in piece] == units
    assert [len(piece) for piece in formations.static_cut(units[:2], 4)] == [0, 1, 1, 0]


def test_whoever_is_free_takes_the_next():
    assert formations.list_schedule(units_of(3, 2, 2, 4), 2) == 7  # 3 + 4 beside 2 + 2
    assert formations.list_schedule(units_of(4, 3, 2, 2), 2) == 6
    assert formations.list_schedule(units_of(5), 3) == 5
    assert formations.list_schedule([], 3) == 0


def test_a_refit_goes_first_and_waits_for_its_candidates():
    searches = [Unit("a", 2.0, 9), Unit("b", 3.0, 8), Unit("c", 2.0, 7)]
    refit = Unit("refit", 1.0, 1, needs=("a", "b"))
    in_order = formations.queue_order([*reversed(searches), refit])
    assert [unit.name for unit in in_order] == ["refit", "a", "b", "c"]
    # a and b begin; a's worker takes c until 4, b's the refit from 3 to 4.
    assert formations.list_schedule(in_order, 2) == 4
    assert formations.list_schedule([searches[1], Unit("refit", 1.0, needs=("b",))], 2) == 4


def test_nodes_do_not_wait_for_each_other_their_workers_do():
    folds = [units_of(1, 1, 4, 2), units_of(5, 1, 1, 1)]
    # The first node takes 2 and 6, the second 6 and 2: nobody waits between the folds.
    assert formations.static_schedule(folds, [1, 1]) == 8
    # Two workers of one node: 4 and 1 | 1 and 2, wait, 5 | 1 + 1 + 1.
    assert formations.static_schedule(folds, [2]) == 5 + 5
    assert formations.list_schedule([*folds[0], *folds[1]], 2) == 8  # without a barrier


def test_efficiency_is_of_the_fits_and_idle_of_the_workers():
    shown = formations.figures([(10.0, 4.0), (10.0, 2.0), (12.5, 2.5)], 2, 6.0)
    assert shown == {"makespan": 5.0, "efficiency": 0.6, "idle": pytest.approx(0.15)}


def test_processes_of_a_host_count_together(tmp_path):
    with ThreadPool(4) as pool:
        numbers = pool.map(formations.take, [tmp_path / "queue"] * 200)
    assert sorted(numbers) == list(range(200))


def test_workers_of_a_node_share_its_queue(tmp_path):
    rounds = [units_of(0, 0.01, 0), units_of(0, 0)]

    class Shared:
        shared = None, None

    with ThreadPool(2) as pool:
        spans = pool.starmap(formations.work_off, [(Shared, rounds, str(tmp_path / "node"), 2)] * 2)
    assert sum(map(len, spans)) == 5


def test_more_workers_than_cores_do_not_compute(capsys):
    assert formations.main(["--fits", "--formation", "90x90"]) == 2
    assert "--fits must have a core for each worker, got 8100" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("fits", [(), ("--fits",)], ids=["asleep", "fits"])
def test_both_jobs_run_on_one_node_and_on_two(fits, tmp_path, monkeypatch):
    monkeypatch.setattr("cluster_setup.on_this_machine.devices.available_cores", lambda: 2)
    small = "--limit 150 --folds 2 --n-c 3 --n-gamma 2 --n-bootstrap 2 --n-tuning 2 --seconds 1"
    where = ["--formation", "1x1", "--formation", "2x1", "--results", str(tmp_path)]
    assert formations.main([*small.split(), *where, *fits]) == 0
    (page,), (kept,) = tmp_path.glob("*.md"), tmp_path.glob("*.json")
    record = json.loads(kept.read_text())
    for name in formations.JOBS:
        one_node, two_nodes = record["lines"][name]
        assert [one_node["workers_of_nodes"], two_nodes["workers_of_nodes"]] == [[1], [1, 1]]
        for line in (one_node, two_nodes):
            assert min(line["static_by_schedule"], line["queue_by_schedule"]) > 0
            for way in ("static", "queue"):
                # Sleep is no shorter than it is told to be; of real fits nothing is certain.
                assert fits or line[way]["efficiency"] <= 1
                assert 0 <= line[way]["idle"] < 1
        assert one_node["queue_by_schedule"] == pytest.approx(one_node["static_by_schedule"])
    text = page.read_text()
    assert ("arithmetic replayed" in text) == (not fits)
    assert text.count("| 2x1") == 2
