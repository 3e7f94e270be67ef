"""The dashboard's page of the tasks at work, as a browser gets it from the scheduler."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any
from urllib.request import urlopen

import pytest
from bokeh.client import pull_session
from bokeh.models import ColumnDataSource
from distributed import Client, Event, get_worker

from cluster_setup.running_tasks_page import LastEvents, status
from cluster_setup.settings import TOPIC


def tell_and_wait(go_on: str, message: dict[str, Any]) -> None:
    worker = get_worker()
    worker.log_event(f"{TOPIC}test", message | {"key": worker.get_current_task()})
    Event(go_on).wait()


def address_of(client: Client) -> str:
    return str(client.dashboard_link).removesuffix("/status")


def shown(client: Client) -> dict[str, list[Any]]:
    with pull_session(url=f"{address_of(client)}/running") as session:
        (source,) = session.document.select({"type": ColumnDataSource})
        return dict(source.data)


@pytest.mark.slow
def test_a_task_at_work_has_a_bar_of_its_share_until_it_is_done(one_worker: Client) -> None:
    message = {"share": 0.625, "folds": 3, "rows": [{"fold": 0}]}
    go_on = Event("go-on", client=one_worker)
    future = one_worker.submit(tell_and_wait, "go-on", message, key="svm-gamma=0.1 5 folds 1-1")
    while (bars := shown(one_worker))["share"] != [0.625]:
        assert len(bars["name"]) <= 1
    assert bars["name"] == ["svm-gamma=0.1 5 folds"]
    assert bars["status"][0].startswith("62 %, 3 folds done")
    assert bars["worker"] == list(one_worker.scheduler_info()["workers"])
    go_on.set()
    future.result()
    while shown(one_worker)["name"]:
        pass


def test_what_ended_is_forgotten(one_worker: Client) -> None:
    go_on = Event("go-on-2", client=one_worker)
    go_on.set()
    one_worker.submit(tell_and_wait, "go-on-2", {"share": 0.5}, key="soon done").result()
    assert one_worker.cluster.scheduler.plugins[LastEvents.name].get("soon done") == {}


@pytest.mark.slow
def test_a_task_that_has_told_nothing_is_shown(one_worker: Client) -> None:
    go_on = Event("go-on-3", client=one_worker)
    future = one_worker.submit(go_on.wait, key="silent 1-1")
    # This one waits at the worker, which has one thread: it has no bar.
    waits = one_worker.submit(sum, (1, 2), key="waits 1-1")
    while not (bars := shown(one_worker))["name"]:
        pass
    assert (bars["name"], bars["share"]) == (["silent"], [0.0])
    assert bars["status"][0].startswith("nothing reported yet")
    go_on.set()
    assert waits.result() == 3
    future.result()


@pytest.mark.parametrize(
    ("last", "seconds", "words"),
    [
        ({"share": 0.999}, None, "99 %"),
        ({"share": 0.2, "folds": 1}, 75.4, "20 %, 1 fold done, 75 s"),
        ({"share": 0.0, "compiled": 12}, 3.0, "0 %, compiling (12 functions so far), 3 s"),
        ({}, 4000.0, "nothing reported yet, 4,000 s"),
    ],
)
def test_what_it_says_of_a_task(last: dict[str, Any], seconds: float | None, words: str) -> None:
    assert status(last, seconds) == words


def test_it_is_in_the_menu_and_in_the_list_of_plots(one_worker: Client) -> None:
    for page in ("running", "status"):
        text = urlopen(f"{address_of(one_worker)}/{page}").read().decode()
        assert text.count('<a href="running">Running</a>') == 1
    plots = json.load(urlopen(f"{address_of(one_worker)}/individual-plots.json"))
    assert plots["Individual Running"] == "/individual-running"
    assert urlopen(f"{address_of(one_worker)}/individual-running").status == 200


def test_without_bokeh_there_is_a_cluster_without_it() -> None:
    program = (
        "import sys; sys.modules['bokeh'] = None\n"
        "from cluster_setup import open_cluster\n"
        "if __name__ == '__main__':\n"
        "    with open_cluster('local', 1) as client:\n"
        "        print(client.submit(sum, (1, 2)).result())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1:] == ["3"], done.stderr
