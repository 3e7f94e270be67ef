"""``--extend``: reuse the fits that another run on the same rows made of the same candidates."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from pipelines.errors import InputError, opt
from pipelines.run import job
from pipelines.run.cluster import Cluster
from pipelines.run.groups import deciding_results, is_moved
from pipelines.run.lifecycle import Session
from pipelines.run_folder import names
from pipelines.run_folder.folder import RunFolder
from pipelines.search.strategies.base import WHOLE
from pipelines.search.tasks import INNER, SEARCH, CellKey, Problem, Row, cell_key_of


def identity_of_candidate(algorithm: str, params: str) -> tuple[Any, ...]:
    """A key that is equal for the same candidate in two runs.

    Floats are compared to 8 digits, as the values of a logarithmic axis carry rounding errors.
    """
    values = {
        name: f"{value:.8g}" if isinstance(value, float) else json.dumps(value)
        for name, value in json.loads(params).items()
    }
    return algorithm, *sorted(values.items())


def rows_to_extend(
    command: Any,
    plan: job.Plan[Any],
    problem: Problem,
    session: Session,
    features: Mapping[str, Any] | None = None,
    shares: Collection[float] = (WHOLE,),
) -> tuple[dict[CellKey, Row], list[dict[str, Any]]]:
    """Rows of another run whose candidates are also candidates of this run.

    Parameters
    ----------
    command : SearchJob
        Its ``candidate_options`` may differ between the two runs; all other options may not.
    plan : Plan
        Plan of this run, whose option ``extend`` is the folder of the other one.
    problem : Problem
        The search with all its candidates.
    session : Session
        Compares the code and packages of the other run with the current ones.
    features : dict, optional
        Features that images were turned into, as ``run.json`` describes them.
    shares : collection of float, default (1,)
        Fractions of the rows that may be asked for; rows for other fractions are left out.

    Returns
    -------
    rows : dict of CellKey to row
        Renumbered for this run's candidates; failed ones are left out.
    accepted : list of dict
        Changes since the other run that were accepted.

    Raises
    ------
    InputError
        The folder is not a run of this command, or has other rows, features or options.
    """
    options, path = plan.options, Path(plan.options.extend or "")
    folder = RunFolder.open(path, command.command, "--extend", command.record)
    accepted = session.accept(
        f"--extend {path}", folder.record, options, candidates=command.candidate_options
    )
    their_options, our_options = folder.record["options"], deciding_results(options)
    about = {field.name: field.metadata for field in fields(options)}
    for name, value in json.loads(json.dumps(our_options)).items():
        their_value = their_options.get(name)
        is_same_file = "identity" in folder.record and is_moved(about[name], their_value, value)
        if name not in command.candidate_options and their_value != value and not is_same_file:
            raise InputError(
                f"{opt('extend')} must be a run with the same {opt(name)}, got {path}, which "
                f"has {their_value} in place of {value}; run without {opt('extend')}"
            )
    if folder.record["dataset"]["fingerprint"] != plan.data.fingerprint:
        raise InputError(
            f"{opt('extend')} must be a run of the same data, got {path}, whose rows are "
            f"others; run without {opt('extend')}"
        )
    if folder.record.get("features") != features:
        raise InputError(
            f"{opt('extend')} must be a run of the same {opt('weights')}, got {path}, whose "
            f"features are of others; run without {opt('extend')}"
        )
    rows, stages = dict[CellKey, Row](), problem.parts or {SEARCH: problem, INNER: problem}
    indices = {
        (stage, *identity_of_candidate(candidate.algorithm, candidate.text)): i
        for stage, part in stages.items()
        for i, candidate in enumerate(part.candidates)
    }
    with folder.journal(command.row, write=False) as journal:
        for row in (row for record in journal.records for row in record["rows"]):
            stage = row.get("stage", "")
            if stage not in stages or row["share"] not in shares:
                continue
            if row["status"].startswith(names.FAILED):
                continue
            index = indices.get((stage, *identity_of_candidate(row["algorithm"], row["params"])))
            if index is not None:
                part = stages[stage]
                candidate = part.candidates[index]
                column_values = {name: candidate.parameters[name] for name in part.columns}
                row = row | {"candidate": index, "params": candidate.text} | column_values
                rows[cell_key_of(row)] = row
    return rows, accepted


def record_extended(
    rows: Mapping[CellKey, Row], options: Any, session: Session, cluster: Cluster
) -> None:
    """Write reused rows to the journal and say how many there are; does nothing if there are none.

    Parameters
    ----------
    rows : mapping of CellKey to row
        As ``rows_to_extend`` returns them.
    options : SearchOptions
    session : Session
    cluster : Cluster
    """
    if not rows:
        return
    session.echo(f"extended   {len(rows):,} fits are those of {options.extend}")
    session.journal.append(
        {
            "task": f"of {options.extend}",
            "worker": cluster.workers[0]["address"],
            "started": time.time(),
            "seconds": 0.0,
            "rows": list(rows.values()),
        }
    )
