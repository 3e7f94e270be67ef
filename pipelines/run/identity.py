"""What decides a run's results besides data and options: files, code and packages, by content."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pipelines.data.user_code import content_of, digest_of, expanded
from pipelines.errors import flag_of

# Rooms of this program whose code decides results; others run, record and show them.
DECIDING = ("bagging", "data", "graph", "nn", "parallel", "search", "svm", "svm_search")
CONTENT = "content"  # of a file that an option names
SHOWN = 12  # digits of a digest in a message

Identity = Mapping[str, Any]
Changes = dict[str, tuple[str, str]]


def identity_of(options: Any, packages: Iterable[str]) -> Identity:
    """Return what decides the results of a run with these options.

    Versions of Python, of Dask and of what reads tables are left out: the data have a fingerprint,
    and a candidate's rows do not depend on the others.

    Parameters
    ----------
    options : dataclass whose fields are options
    packages : distributions that decide the results of the command

    Returns
    -------
    dict of ``inputs``, for each option that names files or code their SHA-256; and ``versions``
    """
    inputs, versions = dict[str, dict[str, str]](), {"pleasingly": _this_program()}
    for package in packages:
        with suppress(PackageNotFoundError):
            # What follows a plus says how it was built, as of torch: +cpu, +cu130.
            versions[package] = version(package).partition("+")[0]
    for field in dataclasses.fields(options):
        about, value = field.metadata, getattr(options, field.name)
        if not about["changes_results"] or value is None:
            continue
        digests = dict[str, str]()
        if about["path"] == "file" and (digest := digest_of(expanded(value))):
            digests[CONTENT] = digest
        for name in about["code"](value) if about["code"] else ():
            sources, of_packages = content_of(name)
            for label, digest in sources.items():
                while digests.get(label, digest) != digest:  # two files of one name
                    label += " (another)"
                digests[label] = digest
            versions |= of_packages
        if digests:
            inputs[field.name] = digests
    return {"inputs": inputs, "versions": versions}


def differences(was: Identity, now: Identity, candidate_options: Iterable[str] = ()) -> Changes:
    """Return what differs between two identities, each as it was and as it is.

    Parameters
    ----------
    candidate_options : options that may name other candidates: of their code that which both have
        is compared, whichever of them names it
    """
    of_candidates = set(candidate_options)
    changes: Changes = {}
    sides = was["inputs"], now["inputs"]
    for name in dict.fromkeys(name for side in sides for name in side):
        if name not in of_candidates:
            changes |= _differing(f" of {flag_of(name)}", *(side.get(name, {}) for side in sides))
    shared = [
        {
            label: digest
            for name in side
            if name in of_candidates
            for label, digest in side[name].items()
            if label != CONTENT
        }
        for side in sides
    ]
    labels = [label for label in shared[0] if label in shared[1]]
    changes |= _differing("", *({label: side[label] for label in labels} for side in shared))
    before, after = was["versions"], now["versions"]
    after = {name: after.get(name, "not installed") for name in before}
    if of_candidates:  # a package may be of an estimator that only one of two runs has
        after = {name: now["versions"].get(name, before[name]) for name in before}
    return changes | _differing("", before, after)


def in_words(changes: Changes) -> str:
    """Return ``scikit-learn was 1.7.2 and is 1.8.0; mine.py of --cv was 1a2b and is 3c4d``."""
    return "; ".join(f"{what} was {was} and is {now}" for what, (was, now) in changes.items())


def recorded_identity(record: Mapping[str, Any], now: Identity) -> tuple[Identity, bool]:
    """Return the identity that ``run.json`` has, and whether it is whole.

    Runs begun before it was recorded have the versions of their last session alone.
    """
    if (was := record.get("identity")) is not None:
        return {"inputs": was["inputs"], "versions": was["versions"]}, True
    recorded = record.get("versions", {})
    versions = {
        name: str(recorded[name]).partition("+")[0]
        for name in now["versions"]
        if name in recorded and name != "pleasingly"
    }
    return {"inputs": now["inputs"], "versions": versions}, False


def _differing(suffix: str, was: Mapping[str, str], now: Mapping[str, str]) -> Changes:
    return {
        f"{name}{suffix}": (_short(was.get(name)), _short(now.get(name)))
        for name in dict.fromkeys([*was, *now])
        if was.get(name) != now.get(name)
    }


def _short(value: str | None) -> str:
    if value is None:
        return "not there"
    return f"{value[:SHOWN]}…" if len(value) == 64 else " ".join(value.split())


@cache
def _this_program() -> str:
    """Return the version of this program, and the digest of its sources that decide results."""
    root, digest = Path(__file__).parents[1], hashlib.sha256()
    for room in DECIDING:
        for path in sorted((root / room).rglob("*")):
            if path.suffix in (".py", ".yaml") and path.is_file():
                digest.update(path.relative_to(root).as_posix().encode() + b"\0")
                digest.update(path.read_bytes())
    try:
        number = version("pleasingly")
    except PackageNotFoundError:
        number = "not installed"
    return f"{number}, sources {digest.hexdigest()[:SHOWN]}"
