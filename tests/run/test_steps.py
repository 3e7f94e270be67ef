"""The steps of a job, each by a call: what it gives is all that the next one has."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from importlib import import_module

import numpy as np
import pandas as pd
import pytest

from cluster_setup import ClusterOptions
from pipelines.console import quiet_echo
from pipelines.run.cluster import opened
from pipelines.run.job import Done, Job
from pipelines.run.lifecycle import open_session
from pipelines.search.tasks import SEARCH
from pipelines.svm_grid import Options, SVMSearchJob

SMALL = Options(limit=200, n_c=3, n_gamma=2, folds=2)


@pytest.fixture
def cluster(tmp_path):
    with opened(ClusterOptions("threads", workers=1), tmp_path, False) as cluster:
        yield cluster


def test_a_plan_says_all_that_will_be_done():
    job = SVMSearchJob()
    data = job.load(SMALL, "threads")
    plan = job.plan(SMALL, data, {})
    Cs = sorted({point["C"] for point in plan.points})
    assert Cs == pytest.approx([1e-3, 10**1.5, 1e6])
    assert plan.n_candidates == 6
    assert plan.options.log_c == (-3.0, 6.0)
    assert plan.lines[-1] == "grid       3 C x 2 gamma x 2 folds = 12 fits, ovo"
    assert sum(len(task.cell_keys) for task in plan.tasks_for("threads", 2)) == 12
    assert not vars(job)
    with pytest.raises(FrozenInstanceError):
        plan.solver = "sklearn"
    assert replace(plan, record={"solver": "sklearn"}).solver == "auto"
    assert job.plan(SMALL, data, {"solver": "sklearn"}).solver == "sklearn"


def test_what_is_done_is_not_computed_again(tmp_path, cluster):
    job = SVMSearchJob()
    plan = job.plan(SMALL, job.load(SMALL, "threads"), {})
    with open_session(job, replace(SMALL, results=str(tmp_path / "run")), quiet_echo) as run:
        nothing = job.restore(plan, run)
        assert (nothing.n_fits, dict(nothing.rows)) == ((0, 12), {})
        run.folder.update(options={}, status="running")
        scored = job.execute(plan, nothing, run, cluster)
        assert len(scored.cells) == len(scored.rows) == 12
        n_records = len(run.journal.records)
        done = job.restore(plan, run)
        assert done.n_fits == (12, 12)
        again = job.execute(plan, done, run, cluster)
        assert len(run.journal.records) == n_records
        pd.testing.assert_frame_equal(again.cells, scored.cells)

        # Without one candidate, its rows alone are computed.
        less = {cell_key: row for cell_key, row in done.rows.items() if cell_key[1] != 4}
        again = job.execute(plan, replace(done, rows=less), run, cluster)
        new_rows = [row for record in run.journal.records[n_records:] for row in record["rows"]]
        assert [(row["stage"], row["candidate"]) for row in new_rows] == [(SEARCH, 4)] * 2
        compared = ["candidate", "fold", "n_errors", "n_support"]
        order = ["candidate", "fold"]
        pd.testing.assert_frame_equal(
            *(
                result.cells[compared].sort_values(order, ignore_index=True)
                for result in (again, scored)
            )
        )

        answer = job.answer(plan, again, run, cluster)
        errors = scored.cells.groupby(["C", "gamma"])["error"].mean()
        assert answer.best.error_mean == pytest.approx(errors.min())
        assert answer.n_test_errors == round(answer.test_error * len(plan.data.y_test))
        assert set(answer.needed) - {"dataset.n_test"} <= {*answer.entries}


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("svm_grid", {"limit": 200, "n_c": 2, "n_gamma": 2, "folds": 2}),
        ("cross_validate", {"limit": 200, "estimator": ["knn"], "folds": 2}),
        ("nn_bagging", {"limit": 200, "n_bootstrap": 1, "n_tuning": 0, "max_epochs": 1}),
        ("pagerank", {"nodes": 100}),
    ],
)
def test_no_job_keeps_anything(command, options, tmp_path, monkeypatch):
    def refuse(self, name, value):
        raise AssertionError(f"{command} keeps {name}")

    monkeypatch.setattr(Job, "__setattr__", refuse)
    run = import_module(f"pipelines.{command}").run
    run(**options, cluster="threads", results=tmp_path / "run", quiet=True)
    assert run(resume=tmp_path / "run", quiet=True).record["status"] == "finished"


def test_ranks_are_those_of_the_graph_that_was_planned(tmp_path, cluster):
    from pipelines.pagerank import Options, PageRank

    (tmp_path / "edges.csv").write_text("source,target\na,b\nb,c\nc,a\nd,a\n")
    options = Options(edges=str(tmp_path / "edges.csv"), tol=1e-12)
    job = PageRank()
    plan = job.plan(options, job.load(options, "threads"), {}).on(cluster)
    assert plan.lines[0].endswith("4 nodes, 4 edges")
    with open_session(job, replace(options, results=str(tmp_path / "run")), quiet_echo) as run:
        ranks = job.execute(plan, Done(), run, cluster)
    # By hand: d has 0.15 / 4; what follows solves the three equations of the circle.
    M = np.array([[0, 0, 1, 1], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0]], float)
    expected = np.linalg.solve(np.eye(4) - 0.85 * M, np.full(4, 0.15 / 4))
    assert dict(zip(ranks.nodes, ranks.values[:, 0], strict=True)) == pytest.approx(
        dict(zip("abcd", expected, strict=True))
    )
