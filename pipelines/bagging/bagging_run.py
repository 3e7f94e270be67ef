"""One run of ``nn_bagging``: options -> data -> cluster -> members -> answer -> run folder."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.bagging import summary
from pipelines.bagging.answer import answer
from pipelines.bagging.explain import chosen_rows, own_pictures, picture_form, with_pictures
from pipelines.bagging.members import MemberFiles
from pipelines.bagging.train_members import done_before, stored, train_members
from pipelines.bagging.work import Plan
from pipelines.data import Dataset, InputError, load_dataset
from pipelines.data.placement import FoldedData
from pipelines.nn.inputs import Inputs
from pipelines.nn.settings import Training
from pipelines.nn.space import SearchSpace
from pipelines.nn.units import Row
from pipelines.report import write_report
from pipelines.run.errors import RunStopped
from pipelines.run.say import Say, aloud, silent
from pipelines.run.session import (
    Session,
    choose_cluster,
    conclude,
    open_session,
    refuse_other_data,
    show_dry_run,
)
from pipelines.run.summary import of_data
from pipelines.run_folder.folder import RunFolder

if TYPE_CHECKING:
    from distributed import Client

    from pipelines.bagging.bagging_options import Options


def run(command: str, options: Options, earlier: RunFolder | None, argv: list[str]) -> int:
    """Carry out a run, new or resumed.

    Parameters
    ----------
    command : str
    options : Options
    earlier : RunFolder, optional
        The run to resume.
    argv : list of str
        As typed, for the record.

    Returns
    -------
    int
        Exit status 0.

    Raises
    ------
    InputError, ClusterError
        Nothing was begun; the message says what to put right.
    RunStopped
        The run ended early; what was computed is in its folder.
    """
    need_torch()
    if earlier is not None and options.explain is None:
        options = replace(options, explain=earlier.record["options"].get("explain"))
    say = silent if options.quiet else aloud
    kind = choose_cluster(options)
    dataset = load_dataset(
        options.dataset, data_dir=options.data_dir, target=options.target, limit=options.limit,
        test_size=options.test_size, seed=options.seed,
    )  # fmt: skip
    chosen = chosen_rows(options.explain, len(dataset.y_test))
    form = picture_form(dataset)
    own = own_pictures(options.image or (), form)
    space = _space(options, dataset, earlier)
    plan = _plan(options, dataset, space, "cpu")  # whatever is wrong with it is said now
    say(of_data(dataset, summary.form_of(dataset), options.limit))
    say(summary.of_plan(options))
    if options.dry_run:
        show_dry_run(options, kind)
        return 0
    refuse_other_data(earlier, dataset)
    pictures = None if own is None else hashlib.sha256(own.tobytes()).hexdigest()
    _refuse_other_pictures(earlier, pictures)
    folder = earlier or RunFolder.create(options.results, command)
    asked = _Asked(chosen, options.image or (), own)
    if _needs_nothing(folder):
        with folder.journal() as journal:
            _, refits = done_before(journal.records, plan, MemberFiles(folder.path))
        folder.update(**_answer(None, folder, options, dataset, stored(refits), asked))
    else:
        with open_session(folder, options, kind, options.workers, say) as session:
            session.begin(
                options, argv, dataset, say, space=space.describe(), pictures=pictures,
                image_form=form and form.describe(),
            )  # fmt: skip
            plan = _plan(options, dataset, space, session.device)
            session.finish(**_carry_out(session, plan, options, dataset, asked, say))
    conclude(folder, summary.of_run(folder.record), write_report, say)
    return 0


def _carry_out(
    session: Session, plan: Plan, options: Options, dataset: Dataset, asked: _Asked, say: Say
) -> dict[str, Any]:
    """Train what is left of the members and reduce them all; facts for ``run.json``."""
    data = FoldedData(
        dataset.X_train, dataset.y_train, with_pictures(dataset.X_test, asked.own),
        dataset.y_test, (), dataset.scaling,
    )  # fmt: skip
    facts, refits = train_members(session, data, plan, dataset, say)
    if not refits:
        raise RunStopped(f"no member could be trained: {facts['why_lost']}")
    return facts | _answer(session.client, session.folder, options, dataset, refits, asked)


@dataclass(frozen=True)
class _Asked:
    """Points the user wants explained: test rows, and pictures with the rows they became."""

    rows: list[int]
    images: tuple[str, ...]
    own: np.ndarray | None


def _answer(
    client: Client | None,
    folder: RunFolder,
    options: Options,
    dataset: Dataset,
    refits: dict[int, Row],
    asked: _Asked,
) -> dict[str, Any]:
    return answer(
        client, folder.path, dataset, refits, n_folds=options.folds, seed=options.seed,
        chosen=asked.rows, images=asked.images, own=asked.own,
    )  # fmt: skip


def _needs_nothing(folder: RunFolder) -> bool:
    """Whether an earlier run is finished and nothing of it wants another try."""
    record = folder.record
    is_whole = not record.get("n_failed") and not record.get("lost_members")
    return record.get("status") == "finished" and is_whole


def need_torch() -> None:
    """Say in one line what is missing where torch is.

    Raises
    ------
    InputError
        It is not installed.
    """
    if find_spec("torch") is None:
        raise InputError(
            "networks need torch, which is not installed; install the nn extra: "
            "pip install -c constraints.txt '.[nn]'"
        )


def _space(options: Options, dataset: Dataset, earlier: RunFolder | None) -> SearchSpace:
    if earlier is not None and "space" in earlier.record:  # a file may have changed since
        return SearchSpace.from_mapping(earlier.record["space"])
    if options.space != "auto":
        return SearchSpace.load(options.space)
    return SearchSpace.load("small" if dataset.image_shape else "mlp")


def _plan(options: Options, dataset: Dataset, space: SearchSpace, device: str) -> Plan:
    training = Training(
        batch_size=options.batch_size,
        max_epochs=options.max_epochs,
        precision=options.precision,
        device=device,
        memory_bytes=None if options.memory is None else int(options.memory * 2**30),
    )
    inputs = Inputs(dataset.X_train.shape[1], dataset.n_classes, dataset.image_shape)
    return Plan.draw(
        dataset.y_train, inputs, space, training, n_bootstrap=options.n_bootstrap,
        n_tuning=options.n_tuning, n_folds=options.folds, seed=options.seed,
    )  # fmt: skip


def _refuse_other_pictures(earlier: RunFolder | None, pictures: str | None) -> None:
    recorded = earlier.record.get("pictures") if earlier else None
    if recorded not in (None, pictures):
        raise InputError(
            "--resume needs the pictures of --image as they were, and one has changed; "
            "start a new run with --results, or ask the ensemble with predict when it is done"
        )
