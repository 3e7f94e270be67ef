"""What decides a run's results besides data and options: files, code, and packages."""

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

# Subpackages whose code decides results; the others run, record and show them.
DECIDING = ("bagging", "data", "graph", "nn", "parallel", "search", "svm", "svm_search")
CONTENT = "content"  # of a file that an option names
SHOWN = 12  # digits of a digest in a message

Identity = Mapping[str, Any]
Changes = dict[str, tuple[str, str]]


def identity_of(options: Any, packages: Iterable[str]) -> Identity:
    """What decides the results of a run with these options, besides its data.

    Left out are the versions of Python, of Dask and of packages that read tables: the data have a
    fingerprint of their own, and the rows of a candidate do not depend on those of others.

    Parameters
    ----------
    options : instance of a dataclass of options
    packages : iterable of str
        Distributions that decide the results of the command; those not installed are left out.

    Returns
    -------
    dict
        ``inputs``, with the SHA-256 of the files and code that each option names; and
        ``versions``, of this program and the packages.
    """
    inputs, versions = dict[str, dict[str, str]](), {"pleasingly": _this_program()}
    for package in packages:
        with suppress(PackageNotFoundError):
            # What follows a plus says how a package was built, such as +cpu or +cu130 of torch.
            versions[package] = version(package).partition("+")[0]
    for field in dataclasses.fields(options):
        metadata, value = field.metadata, getattr(options, field.name)
        if not metadata["changes_results"] or value is None:
            continue
        digests = dict[str, str]()
        if metadata["path"] == "file" and (digest := digest_of(expanded(value))):
            digests[CONTENT] = digest
        for name in metadata["code"](value) if metadata["code"] else ():
            sources, package_versions = content_of(name)
            for label, digest in sources.items():
                while digests.get(label, digest) != digest:  # two files of one name
                    label += " (another)"
                digests[label] = digest
            versions |= package_versions
        if digests:
            inputs[field.name] = digests
    return {"inputs": inputs, "versions": versions}


def differences(
    old_identity: Identity, new_identity: Identity, candidate_options: Iterable[str] = ()
) -> Changes:
    """What differs between two identities, as pairs of texts: as it was, and as it is.

    Parameters
    ----------
    old_identity, new_identity : Identity
    candidate_options : iterable of str
        Options that may name other candidates than before. Of their code only what both
        identities have is compared, whichever option names it.
    """
    candidate_names = set(candidate_options)
    changes: Changes = {}
    sides = old_identity["inputs"], new_identity["inputs"]
    for name in dict.fromkeys(name for side in sides for name in side):
        if name not in candidate_names:
            changes |= _differing(f" of {flag_of(name)}", *(side.get(name, {}) for side in sides))
    shared = [
        {
            label: digest
            for name in side
            if name in candidate_names
            for label, digest in side[name].items()
            if label != CONTENT
        }
        for side in sides
    ]
    labels = [label for label in shared[0] if label in shared[1]]
    changes |= _differing("", *({label: side[label] for label in labels} for side in shared))
    old_versions, new_versions = old_identity["versions"], new_identity["versions"]
    new_versions = {name: new_versions.get(name, "not installed") for name in old_versions}
    if candidate_names:  # a package may be of an estimator that only one of two runs has
        new_versions = {
            name: new_identity["versions"].get(name, old_versions[name]) for name in old_versions
        }
    return changes | _differing("", old_versions, new_versions)


def describe_changes(changes: Changes) -> str:
    """Changes in words: ``scikit-learn was 1.7.2 and is 1.8.0; mine.py was 1a2b and is 3c4d``."""
    return "; ".join(
        f"{subject} was {old_text} and is {new_text}"
        for subject, (old_text, new_text) in changes.items()
    )


def recorded_identity(
    record: Mapping[str, Any], current_identity: Identity
) -> tuple[Identity, bool]:
    """The identity in ``run.json``, and whether it is complete.

    Runs begun before identities were recorded have only the versions of their last session.
    """
    if (identity := record.get("identity")) is not None:
        return {"inputs": identity["inputs"], "versions": identity["versions"]}, True
    recorded = record.get("versions", {})
    versions = {
        name: str(recorded[name]).partition("+")[0]
        for name in current_identity["versions"]
        if name in recorded and name != "pleasingly"
    }
    return {"inputs": current_identity["inputs"], "versions": versions}, False


def _differing(
    suffix: str, old_digests: Mapping[str, str], new_digests: Mapping[str, str]
) -> Changes:
    return {
        f"{name}{suffix}": (_short(old_digests.get(name)), _short(new_digests.get(name)))
        for name in dict.fromkeys([*old_digests, *new_digests])
        if old_digests.get(name) != new_digests.get(name)
    }


def _short(value: str | None) -> str:
    if value is None:
        return "not there"
    return f"{value[:SHOWN]}…" if len(value) == 64 else " ".join(value.split())


@cache
def _this_program() -> str:
    """The version of this program, with a digest of those sources that decide results."""
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
