"""The documentation is built as ``make docs`` does it: a warning is an error."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

import pipelines

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.slow
def test_every_public_name_has_its_reference(site):
    page = "".join(
        (site / "reference" / f"{name}.html").read_text() for name in ("estimators", "commands")
    )
    for name in pipelines.__all__:
        assert name in page, name
    assert "array-like of shape (n_samples, n_features)" in page
    assert "ArrayLike" in page


@pytest.mark.slow
def test_every_page_is_reached_and_its_figures_are_there(site):
    start = (site / "index.html").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        built = page.relative_to(ROOT / "docs").with_suffix(".html")
        assert (site / built).is_file()
        assert f'href="{built.as_posix()}"' in start, built
    assert (site / "images" / "bagging_flower.png").is_file()
    assert "fonts.googleapis.com" not in start


# What people type, and the page that should come first.
SEARCHES = {
    "how-to/own-table": ["excel", "csv", "pandas", "dataframe"],
    "tables": ["missing values", "categorical"],
    "how-to/imbalanced": ["imbalanced", "class weight"],
    "how-to/images": ["images"],
    "how-to/own-network": ["nn.Module", "custom network", "pytorch"],
    "how-to/own-estimator": ["xgboost"],
    "how-to/validation": [
        "time series",
        "groups",
        "nested cross-validation",
        "custom scorer",
        "scoring metric",
    ],
    "how-to/candidates": ["random search", "bayesian optimization", "optuna", "halving"],
    "how-to/time-budget": ["time limit"],
    "bagging": ["early stopping", "calibration"],
    "cross-validation": ["learning curve"],
    "data-parallel": ["distributed training"],
    "how-to/regression": ["regression"],
    "how-to/million-rows": ["million rows", "kernel approximation"],
    "how-to/pagerank": ["pagerank", "networkx"],
    "how-to/guarantee": ["conformal"],
    "how-to/read-the-page": ["confusion matrix", "roc", "feature importance"],
    "how-to/predict": ["predict", "probability"],
    "how-to/export": ["export", "onnx"],
    "how-to/experiment-tracking": ["mlflow", "tensorboard"],
    "how-to/many-runs": ["compare runs"],
    "how-to/config": ["config file"],
    "how-to/resume": ["resume"],
    "how-to/accelerate": ["GridSearchCV"],
    "reliability": ["reproducibility", "seed"],
    "how-to/gpu": ["gpu"],
    "how-to/slurm": ["slurm", "walltime"],
    "clusters": ["mpi"],
    "how-to/install": ["docker"],
    "how-to/memory": ["memory", "out of memory"],
    "how-to/notebook": ["jupyter", "dashboard"],
    "how-to/workers": ["n_jobs"],
}


@pytest.mark.slow
@pytest.mark.browser
def test_the_fields_words_find_their_page_first(site, browser):
    """By the search of the built site, which is opened as a file, as a person would."""
    assert sum(map(len, SEARCHES.values())) >= 40
    page = browser.new_page()
    elsewhere = []
    page.on("request", lambda request: elsewhere.append(request.url))
    page.goto((site / "index.html").as_uri())
    field = page.locator("input.md-search__input")
    field.click()
    page.wait_for_function("document.querySelector('.md-search-result__meta').innerText.trim()")
    astray = {}
    for name, words in SEARCHES.items():
        for word in words:
            # Results of the word before are gone once this finds nothing.
            field.fill("")
            field.press_sequentially("xyzzy")
            page.wait_for_selector(".md-search-result__list:not(:has(li))", state="attached")
            field.fill("")
            field.press_sequentially(word)
            first = page.locator("a.md-search-result__link").first
            page.wait_for_selector("a.md-search-result__link", state="attached")
            page.wait_for_timeout(200)  # of a word half typed, other pages were found
            address = (first.get_attribute("href") or "").partition("?")[0]
            if address.partition("#")[0] != (site / f"{name}.html").as_uri():
                astray[word] = address
    page.close()
    assert not astray
    assert not [url for url in elsewhere if url.startswith("http")]


def test_every_entry_of_the_glossary_leads_to_a_page():
    lines = (ROOT / "docs" / "glossary.md").read_text().split("\n- **")[1:]
    spec = spec_from_file_location("words", ROOT / "docs" / "words.py")
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(hook := module_from_spec(spec))
    pages = hook.words_of_pages()
    assert sum(map(len, pages.values())) == sum(
        line.partition("**")[0].count(",") + 1 for line in lines
    )
    assert all((ROOT / "docs" / page).is_file() for page in pages)
    words = [word.lower() for terms in pages.values() for word in terms]
    twice = {word for word in words if words.count(word) > 1}
    assert not twice, "a word leads to one page"


@pytest.mark.slow
def test_the_reference_says_what_to_import(site):
    for name in ("estimators", "commands", "clusters"):
        page = (site / "reference" / f"{name}.html").read_text()
        heads = re.findall(r'<h2 [^>]*class="doc doc-heading">(.*?)</h2>', page, re.DOTALL)
        for head in heads:
            path = re.sub(r"<[^>]+>|\s|¶", " ", head).split()[0].rpartition(".")
            assert path[0] == "" or hasattr(import_module(path[0]), path[2]), head
        shown = {name for name in pipelines.__all__ if f"pipelines.{name}" in " ".join(heads)}
        assert name == "clusters" or len(shown) > 3
        assert not re.search(r"–\s*<div class=\"doc-md-description\">\s*</div>", page)
