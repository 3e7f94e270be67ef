from dataclasses import replace

import pytest

from pipelines.report.style import figure_style
from pipelines.report.timeline import timeline, worker_name
from pipelines.run_folder.reading import FinishedTask
from pipelines.run_folder.work_time import idle_periods, shown_seconds, worker_timelines


def task(worker, started, seconds):
    return FinishedTask("svm gamma=0.01", worker, started, seconds, ({"gamma": 0.01},))


def bars(figure):
    """Left end, right end and middle of each bar."""
    lanes = [c for c in figure.axes[0].collections if c.get_gid() == "tasks"]
    extents = [path.get_extents() for lane in lanes for path in lane.get_paths()]
    return [(e.x0, e.x1, (e.y0 + e.y1) / 2) for e in extents]


def drawn(figure):
    with figure_style():
        figure.draw_without_rendering()
    return figure


def test_a_bar_lies_in_its_workers_lane_at_its_time():
    tasks = [task("tcp://a:1", 100, 5), task("tcp://b:1", 101, 2), task("tcp://a:1", 106, 4)]
    figure = drawn(timeline(tasks))

    assert bars(figure) == [
        pytest.approx((0, 5, 0)),
        pytest.approx((6, 10, 0)),
        pytest.approx((1, 3, 1)),
    ]
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == ["a:1", "b:1"]
    assert [text.get_text() for text in figure.axes[0].texts] == ["90 %", "20 %"]


def test_tasks_side_by_side_on_one_worker_count_once():
    (row,) = worker_timelines([task("a", 0, 4), task("a", 1, 4)])
    assert row.busy_seconds == 5


def test_the_time_between_a_stop_and_its_resumption_is_cut_out():
    tasks = [task("a", 0, 50), task("a", 52, 50), task("a", 50_000, 60)]
    assert idle_periods(tasks) == [(102, 50_000)]
    assert shown_seconds(tasks) == pytest.approx(162)
    figure = drawn(timeline(tasks))
    assert max(right for _, right, _ in bars(figure)) < 180
    assert "stopped for 13 h 52 min" in [text.get_text() for text in figure.axes[0].texts]


def test_a_time_without_a_worker_is_not_called_a_stop():
    tasks = [replace(entry, session=1) for entry in (task("a", 0, 6), task("b", 106, 5))]
    figure = drawn(timeline(tasks))
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert texts == ["5 %", "5 %", "no worker for 1 min 40 s"]


def test_idle_time_within_a_run_is_not_cut_out():
    assert idle_periods([task("a", 0, 50), task("a", 90, 50)]) == []
    assert idle_periods([]) == []
    drawn(timeline([task("a", 0, 0)]))


def test_hundreds_of_workers_fit_a_page():
    tasks = [task(f"tcp://10.0.0.{i}:4000", 0, 1 + i) for i in range(300)]
    figure = drawn(timeline(tasks))
    assert figure.get_figheight() < 11
    assert len(figure.axes[0].get_yticks()) <= 40


def test_a_workers_name_is_its_address_without_the_protocol():
    assert worker_name("tcp://10.0.0.1:4000") == "10.0.0.1:4000"
    assert worker_name("") == "unknown"
