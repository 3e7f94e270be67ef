"""Writing the page of a run: one HTML file that needs no network and no other file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NamedTuple

import jinja2

from pipelines.commands import job_of
from pipelines.report.base import Report
from pipelines.report.figure_values import MOST_VALUES, figure_values, is_crowded
from pipelines.report.parts import Chart, Section, every_part
from pipelines.report.style import DARK_RULES, figure_style, inline, save
from pipelines.run_folder.names import REPORT, replacing
from pipelines.run_folder.record import Record, read_record

# One environment for all pages, as it keeps the compiled template. All text is escaped, since names
# of classes, columns and files come from the user; only the SVG of a figure is inserted as it is.
TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
)
TOO_MANY = f"With more than {MOST_VALUES:,} values, none is shown under the pointer."


def read_run(folder: Path) -> Report:
    """Read a run folder with the report class of its command, which ``run.json`` names.

    Raises
    ------
    pipelines.errors.InputError
        ``folder`` is not a run folder, or a file in it is damaged.
    """
    _, record = read_record(folder, Record)
    job = job_of(record.command)
    if job is None:
        return Report.read(folder)
    page: type[Report] = resolve_name(job.page) if job.page else Report
    return page.of(record).read(folder, job.row, job.record, job.cells_file)


class DrawnFigure(NamedTuple):
    """A figure that has been drawn, as the page inserts it.

    Attributes
    ----------
    width : int
        In CSS pixels.
    svg : str
    values : str
        Positions and texts that the page shows under the pointer, one per line.
    remark : str
        Sentence that is added to the caption.
    """

    width: int
    svg: str
    values: str
    remark: str = ""


def draw_figures(folder: Path, charts: Sequence[Chart]) -> dict[str, DrawnFigure]:
    """Draw figures into a folder, as SVG and PNG.

    Returns
    -------
    dict of str to DrawnFigure
        By the name of the chart.
    """
    figures = {}
    with figure_style():
        for chart in charts:
            figure = chart.draw()
            svg = save(figure, folder, chart.name).read_text(encoding="utf-8")
            width, values = round(96 * figure.get_figwidth()), "\n".join(figure_values(figure))
            remark = TOO_MANY if is_crowded(figure) else ""
            figures[chart.name] = DrawnFigure(width, inline(svg, chart.name), values, remark)
    return figures


def write_page(folder: Path) -> Path:
    """Draw the figures of a run folder and write its ``report.html``; see ``write_report``."""
    folder = Path(folder)
    report = read_run(folder)
    sections = [
        section for section in report.sections() + report.last_sections() if section.is_shown
    ]
    name = report.record.dataset.name
    remarks = [
        (f"{remark[0].upper()}{remark[1:]}{'' if remark.endswith(('?', '.')) else '.'}", "")
        for remark in report.record.remarks
        if remark
    ]
    title = (report.title or report.record.command) + (f" on {name}" if name else "")
    head = {name: getattr(report, name)() for name in ("subtitle", "state", "conclusion", "cards")}
    head["warnings"] = [*remarks, *report.warnings()]
    figures = draw_figures(folder, charts_of(sections))
    return write_html(folder / REPORT, title=title, sections=sections, figures=figures, **head)


def charts_of(sections: Sequence[Section]) -> list[Chart]:
    """All charts within sections, from top to bottom."""
    return [
        part
        for section in sections
        for part in every_part(section.parts)
        if isinstance(part, Chart)
    ]


def write_html(
    page: Path,
    *,
    title: str,
    sections: Sequence[Section],
    figures: dict[str, DrawnFigure],
    **head: Any,
) -> Path:
    """Write an HTML page. If writing fails, an earlier page stays as it was.

    Parameters
    ----------
    page : Path
        The file.
    title : str
    sections : sequence of Section
    figures : dict of str to DrawnFigure
        As ``draw_figures`` gives them.
    **head
        Optional: ``subtitle``, ``state``, ``conclusion``, ``cards`` and ``warnings``; ``script``, a
        JavaScript file of this folder, with the variables that it needs.

    Returns
    -------
    Path
        ``page``.

    Raises
    ------
    OSError
        The page cannot be written.
    """
    text = TEMPLATES.get_template("page.html").render(
        title=title, sections=sections, figures=figures, dark_rules=DARK_RULES, **head
    )
    with replacing(page) as file:
        file.write_text(text, encoding="utf-8")
    return page
