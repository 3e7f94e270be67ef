"""Execute the notebooks and keep them as pages with figures: ``python docs/render_notebooks.py``.

The hosting site shows no SVG of a notebook, and the notebooks are kept without outputs; these
pages are what they look like when they have run. ``tests/test_notebooks.py`` holds the pages
against the notebooks.
"""

from __future__ import annotations

import re
import socket
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "notebooks"
# What a terminal draws over: colours, and all but the last state of a line.
CONTROL, REDRAWN = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]"), re.compile(r"[^\n]*\r(?!\n)")


def render(notebook: Path, folder: Path) -> None:
    """Execute a notebook in a folder of its own; write its page and figures below ``folder``."""
    import nbformat
    from nbconvert import MarkdownExporter
    from nbconvert.preprocessors import ExecutePreprocessor

    content = nbformat.read(notebook, as_version=4)
    with TemporaryDirectory() as scratch:
        (Path(scratch) / "images").symlink_to(notebook.parent / "images")
        ExecutePreprocessor(timeout=None).preprocess(content, {"metadata": {"path": scratch}})
        body, resources = MarkdownExporter().from_notebook_node(
            content, {"output_files_dir": notebook.stem, "unique_key": "figure"}
        )
        for place in {scratch, str(Path(scratch).resolve()), str(ROOT)}:
            body = body.replace(place, "…")
    body = body.replace(str(Path.home()), "~")
    body = re.sub(rf"\b{re.escape(socket.gethostname())}\b", "this-host", body)
    for name, figure in resources["outputs"].items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(figure)
    (folder / f"{notebook.stem}.md").write_text(tidy(body))


def tidy(body: str) -> str:
    """A page without what only a terminal or a notebook draws; the lines of a run together."""
    body = REDRAWN.sub("", CONTROL.sub("", body))
    body = re.sub(r"<style scoped>.*?</style>|<pre [^>]*></pre>", "", body, flags=re.DOTALL)
    body = re.sub(r'<a href="[^"]*report\.html">([^<]*)</a>', r"\1", body)  # not kept: text alone
    # A row of a table on one line, as a reader of the source would write it.
    body = re.sub(r"(?<=>)\s+(?=</?(?:t[hdr]|thead|tbody|/table)\b)", "", body)
    body = body.replace("<tr", "\n<tr")
    lines = [line.rstrip() for line in body.splitlines() if line.strip() != "Output()"]
    pieces = re.split(r"(^```python$.*?^```$)", "\n".join(lines).strip(), flags=re.M | re.S)
    pieces[::2] = [re.sub(r"\n{3,}", "\n\n", text) for text in pieces[::2]]  # not of code
    body = "".join(pieces)
    return re.sub(r"^(    .+)\n\n(?=    )", r"\1\n", body, flags=re.MULTILINE) + "\n"


if __name__ == "__main__":
    PAGES.mkdir(exist_ok=True)
    for name in sys.argv[1:] or [path.stem for path in sorted(ROOT.glob("notebooks/*.ipynb"))]:
        render(ROOT / "notebooks" / f"{name}.ipynb", PAGES)
        print(f"docs/notebooks/{name}.md")
