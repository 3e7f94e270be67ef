"""What README and docs claim is what a kept result says, and has a command that measures it."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks.claims import FILE, kept_record, read

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
TEXTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CITATION.cff",
    ROOT / "pyproject.toml",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name != "notebooks"),
]
COMMANDS, CLAIMS = read()
# What looks like a ratio of speed and is none.
NO_CLAIMS = [entry["place"] for entry in tomllib.loads(FILE.read_text())["no_claims"]]

NUMBER = r"\d[\d,.]*\d|\d|two|three|four|five|six|seven|eight|nine|ten|twelve|twenty"
RATIO = re.compile(
    rf"(?:{NUMBER})(?:(?: to | : | and )(?:{NUMBER}))? ?"
    r"(?:×(?! ?\d)|times\b|% (?:less|fewer|more|narrower|above|faster|slower|longer))"
    r"|\b0\.\d+ of (?:the|it|its)\b"
)
WORDS = {"seven": "7"}


def is_there(module):
    """Is a module, or a package, in the repository?"""
    path = ROOT.joinpath(*module.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def text_of(path):
    """A text with its lines joined."""
    return " ".join(path.read_text().split())


def spans(text, words):
    """Where words stand in a text, whose lines are joined."""
    return [match.span() for match in re.finditer(re.escape(" ".join(words.split())), text)]


@pytest.mark.parametrize("name", list(CLAIMS))
def test_the_texts_quote_the_kept_result(name):
    claim = CLAIMS[name]
    kept = kept_record(COMMANDS[claim.command])
    if isinstance(kept, str):
        assert claim.quoted in re.findall(NUMBER, kept)
    else:
        decimals = len(claim.quoted.partition(".")[2])
        value = round(claim.value(kept), decimals)
        assert value == float(claim.quoted.replace(",", "")), f"the kept result says {value}"
    assert claim.places, "a claim that no text quotes is no claim"
    for file, words in claim.places:
        assert spans(text_of(ROOT / file), words), f"{file} does not say: {words}"
        numbers = [WORDS.get(word, word) for word in re.findall(NUMBER, words)]
        assert claim.quoted in numbers, f"{file}: {words} does not quote {claim.quoted}"


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_every_ratio_of_the_texts_is_listed(path):
    text, file = text_of(path), str(path.relative_to(ROOT))
    listed = [
        (span, claim.quoted)
        for claim in CLAIMS.values()
        for page, words in claim.places
        if page == file
        for span in spans(text, words)
    ]
    apart = [span for page, words in NO_CLAIMS if page == file for span in spans(text, words)]
    unlisted = []
    for match in RATIO.finditer(text):
        if any(first <= match.start() and match.end() <= last for first, last in apart):
            continue
        quoted = {
            number
            for (first, last), number in listed
            if first <= match.start() and match.end() <= last
        }
        numbers = {WORDS.get(word, word) for word in re.findall(NUMBER, match[0])}
        if not numbers <= quoted:
            unlisted.append(text[max(0, match.start() - 40) : match.end() + 40])
    assert not unlisted, f"benchmarks/claims.toml has no claim for: {unlisted}"


@pytest.mark.parametrize("name", list(COMMANDS))
def test_a_command_exists_and_takes_its_options(name):
    command = COMMANDS[name]
    assert any(claim.command == name for claim in CLAIMS.values()), "no claim needs it"
    assert re.fullmatch(r"[0-9a-f]{8,40}", command.commit)
    assert command.needs in ("", "gpu", "network", "hours")
    assert bool(command.small) != bool(command.needs), "runs in a short form, or says why not"
    assert (command.seconds > 0) == bool(command.small)
    for words in filter(None, (command.small, command.large)):
        module, *options = shlex.split(words)
        assert is_there(module), module
        if module.startswith("benchmarks."):
            parser(module).parse_args(options)


def parser(module):
    """The parser of ``python -m MODULE``."""
    main = f"{module}.__main__" if Path(ROOT, *module.split(".")).is_dir() else module
    return import_module(main)._parser()


def test_small_forms_take_half_an_hour_at_most():
    assert sum(command.seconds for command in COMMANDS.values() if command.small) <= 30 * 60


def pages():
    """The kept results that texts link to."""
    linked = {
        (path.parent / target).resolve()
        for path in TEXTS
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text())
    }
    return sorted(path for path in linked if RESULTS in path.parents)


COMMIT = re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{8,40}\b")


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.name)
def test_a_kept_result_names_a_commit(path):
    record = path.parent / "run.json" if path.name == "report.html" else path.with_suffix(".json")
    texts = [source.read_text() for source in (path, record) if source.is_file()]
    assert any(COMMIT.search(text) for text in texts), "which commit can repeat it?"


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.md")), ids=lambda path: path.name)
def test_what_a_kept_result_names_is_there_or_a_commit_has_it(path):
    text = path.read_text()
    absent_modules = {
        module
        for module in re.findall(r"python -m (benchmarks(?:\.\w+)+)", text)
        if not is_there(module)
    }
    kept_modules = re.findall(r"Commit `[0-9a-f]{8,}` has `python -m (\S+)`", text)
    missing = absent_modules - set(kept_modules)
    assert not missing, "a line must say: Commit `…` has `python -m …`"


def test_texts_name_no_module_that_is_gone():
    absent_modules = {
        (path.name, module)
        for path in TEXTS
        for module in re.findall(r"\b(benchmarks\.[a-z]\w+)", path.read_text())
        if not module.endswith(".md") and not is_there(module)
    }
    assert not absent_modules


def test_the_history_has_the_commits():
    git = ["git", "-C", str(ROOT)]
    shallow = subprocess.run(
        [*git, "rev-parse", "--is-shallow-repository"], capture_output=True, text=True
    )
    if shallow.stdout.strip() != "false":
        pytest.skip("the whole history is not here")
    named = {command.commit for command in COMMANDS.values()}
    for path in RESULTS.glob("*.md"):
        named.update(re.findall(r"[Cc]ommit `([0-9a-f]{8,})`", path.read_text()))
    request_text = "".join(f"{commit}\n" for commit in sorted(named))
    answers = subprocess.run(
        [*git, "cat-file", "--batch-check"], input=request_text, capture_output=True, text=True
    )
    assert "missing" not in answers.stdout
