"""A page of Dask's dashboard: a bar for each task at work, as long as its share that is done.

Needs bokeh. A task reports its progress by an event of a topic that begins with ``TOPIC``: a dict
with its ``key``, its ``share``, and where it has some the ``folds`` it has done or the
functions it has ``compiled``. The last one is kept by a plugin of the scheduler for pages that are
opened later.

Dask imports this file as a module of routes (``settings``), before it makes its dashboard.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from bokeh.models import ColumnDataSource, Range1d
from bokeh.plotting import figure
from dask.utils import key_split
from distributed.dashboard.components import DashboardComponent, add_periodic_callback
from distributed.dashboard.components.scheduler import BOKEH_THEME, env
from distributed.dashboard.scheduler import applications, template_variables
from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.diagnostics.progress_stream import color_of

from cluster_setup.settings import TOPIC

PAGE = "/running"  # with Dask's menu; the other one is what its JupyterLab panel lists
ALONE = "/individual-running"
MILLISECONDS_BETWEEN_LOOKS = 1000  # nothing is told more often
LEAST_BARS, PIXELS_OF_A_BAR, PIXELS_AROUND = 4, 44, 50


class LastEvents(SchedulerPlugin):
    """Keeps the last progress event of each task at work."""

    name = "pleasingly-last-events"

    def __init__(self, scheduler: Any) -> None:
        self._tasks = scheduler.tasks
        self._last: dict[str, dict[str, Any]] = {}

    def log_event(self, topic: str, msg: Any) -> None:
        """Keep an event, less its rows, of a task at work."""
        if topic.startswith(TOPIC):
            task = self._tasks.get(msg.get("key"))
            if task is not None and task.state == "processing":
                self._last[task.key] = {name: msg[name] for name in msg if name != "rows"}

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        """Forget a task that leaves its worker; another try begins anew."""
        if start == "processing":
            self._last.pop(key, None)

    def get(self, key: Any) -> dict[str, Any]:
        """Return the last event of a task; empty where it has sent none."""
        return self._last.get(key, {})


class RunningTasks(DashboardComponent):
    """The bars, worker by worker."""

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self.source = ColumnDataSource(data=bars(scheduler))
        self.root: Any = figure(
            title="Running tasks", name="running", x_range=Range1d(start=0, end=1),
            y_range=Range1d(start=-LEAST_BARS, end=0), tools="", toolbar_location=None,
            sizing_mode="stretch_width", height=LEAST_BARS * PIXELS_OF_A_BAR + PIXELS_AROUND,
            tooltips=[("task", "@name"), ("worker", "@worker"), ("done", "@status")],
        )  # fmt: skip
        of_bar: dict[str, Any] = {
            "source": self.source,
            "left": 0,
            "top": "top",
            "bottom": "bottom",
        }
        self.root.quad(**of_bar, right=1, fill_color="#aaaaaa", fill_alpha=0.15, line_alpha=0)
        self.root.quad(**of_bar, right="share", fill_color="color", fill_alpha=0.6, line_alpha=0)
        # One below the other: on a narrow screen there is no room for both beside each other.
        for text, y_offset in (("name", -9), ("status", 9)):
            self.root.text(
                source=self.source, x=0, y="middle", text=text, x_offset=6, y_offset=y_offset,
                text_baseline="middle", text_font_size="10pt",
            )  # fmt: skip
        for hidden in (*self.root.axis, *self.root.grid):
            hidden.visible = False

    def update(self) -> None:
        """Show the tasks of now."""
        now = bars(self._scheduler)
        n_bars = max(LEAST_BARS, len(now["name"]))
        if -n_bars != self.root.y_range.start:
            self.root.y_range.start = -n_bars
            self.root.height = n_bars * PIXELS_OF_A_BAR + PIXELS_AROUND
        if now != self.source.data:
            self.source.data = dict(now)


def bars(scheduler: Any) -> dict[str, list[Any]]:
    """Return a bar for each task that a worker is at, in the order of the workers."""
    events = scheduler.plugins.get(LastEvents.name)
    columns = ("name", "worker", "share", "status", "color", "top", "bottom", "middle")
    data: dict[str, list[Any]] = {column: [] for column in columns}
    workers = scheduler.workers.values()
    for worker, task in ((one, task) for one in workers for task in one.processing):
        last = events.get(task.key) if events else {}
        if not last and task not in worker.executing:  # it waits there for others
            continue
        row = len(data["name"])
        for column, value in {
            "name": str(task.key).rpartition(" ")[0] or str(task.key),  # less the run's own name
            "worker": worker.address,
            "share": last.get("share", 0.0),
            "status": status(last, worker.executing.get(task)),
            "color": color_of(key_split(task.key)),
            "top": -row - 0.06,
            "bottom": -row - 0.94,
            "middle": -row - 0.5,
        }.items():
            data[column].append(value)
    return data


def status(last: dict[str, Any], seconds: float | None) -> str:
    """Return the last event of a task in words, with the time it has been at work for."""
    parts = [f"{int(100 * last['share'])} %" if "share" in last else "nothing reported yet"]
    if folds := last.get("folds"):
        parts.append(f"{folds} fold{'s' * (folds != 1)} done")
    if compiled := last.get("compiled"):
        parts.append(f"compiling ({compiled} function{'s' * (compiled != 1)} so far)")
    if seconds is not None:
        parts.append(f"{seconds:,.0f} s")
    return ", ".join(parts)


def _show(scheduler: Any, extra: dict[str, Any], doc: Any, with_menu: bool) -> None:
    running = RunningTasks(scheduler)
    add_periodic_callback(doc, running, MILLISECONDS_BETWEEN_LOOKS)
    doc.add_root(running.root)
    doc.title = "Dask: Running tasks"
    doc.theme = BOKEH_THEME
    if with_menu:
        doc.template = env.get_template("simple.html")
        doc.template_variables.update(extra)


routes: list[Any] = []  # beside those of the dashboard, which follow
applications[PAGE] = partial(_show, with_menu=True)
applications[ALONE] = partial(_show, with_menu=False)


def setup(scheduler: Any) -> None:
    """Keep the events of a scheduler whose dashboard has the page, and put it into its menu."""
    pages = template_variables(scheduler)["pages"]
    if PAGE.strip("/") not in pages:
        pages.insert(1, PAGE.strip("/"))
    scheduler.add_plugin(LastEvents(scheduler))
