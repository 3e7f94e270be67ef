"""The command ``pleasingly export RUN``, which writes a model for other programs and checks it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.commands import job_of
from pipelines.errors import InputError, opt
from pipelines.run.options import argument, option, parse_options

if TYPE_CHECKING:
    from pipelines.export.exported_model import Exported
    from pipelines.run_folder.record import Record

SUFFIXES = {
    "onnx": (".onnx",),
    "sklearn": (".pkl", ".pickle", ".joblib"),
    "skops": (".skops",),
    "safetensors": (".safetensors",),
}
DESCRIPTION = (
    "Write the model of a finished run for other programs: onnx for ONNX Runtime, with scaling and "
    "preparation inside; sklearn (a pickle) and skops for scikit-learn without this package; "
    "safetensors, arrays and a description. It is checked first: its answers on the run's test "
    "rows must be the model's own, labels equal and probabilities to 1e-5, or nothing is written."
)
EXAMPLES = (
    "results/svm_grid-20261120-130849 --to onnx",
    "results/cross_validate-20261121-091500 --to skops --output forest.skops",
)


@dataclass(frozen=True)
class Options:
    """Options of ``export``."""

    run: Path = argument("RUN", "the folder of a finished run")
    to: str = option("onnx", "the format", choices=tuple(SUFFIXES))
    output: Path | None = option(
        None,
        "the file (default: NAME.onnx, .pkl, .skops or .safetensors in the current folder, by the "
        "name of RUN)",
        parse=Path,
        metavar="FILE",
    )
    dataset: str | None = option(
        None,
        "where the run's data are by now, if they have moved: its test rows are asked about",
        metavar="PATH",
    )

    def check(self) -> None:
        """Raise InputError for an output file whose suffix belongs to another format."""
        suffixes = SUFFIXES[self.to]
        if self.output is not None and self.output.suffix not in suffixes:
            raise InputError(
                f"{opt('output')} must be a file that ends in {' or '.join(suffixes)} for "
                f"{opt('to', self.to)}, got {self.output}; try "
                f"{self.output.with_suffix(suffixes[0])}"
            )


def main(argv: Sequence[str] | None = None) -> int:
    """Export a model; return the exit status.

    Parameters
    ----------
    argv : sequence of str, optional
        By default the arguments of the command line.

    Returns
    -------
    int
        0; 1 if the exported model does not predict the same; 2 for bad input.
    """
    from pipelines.run.job import exit_status

    return exit_status("export", partial(_export, argv))


def _export(argv: Sequence[str] | None) -> None:
    from pipelines.console import echo
    from pipelines.run_folder.names import RECORD, REPORT, replacing

    options, _ = parse_options(Options, "export", DESCRIPTION, argv, EXAMPLES)
    _need(options.to)
    exported, rows, words = _open(options)
    name = options.run.resolve().name
    file = options.output or Path(f"{name}{SUFFIXES[options.to][0]}")
    run_files = [options.run / file_name for file_name in (RECORD, REPORT, *exported.record.files)]
    if file.exists() and any(path.exists() and file.samefile(path) for path in run_files):
        raise InputError(
            f"{opt('output')} must be a file of its own, got {file}, which the run left; name "
            "another"
        )
    reference = exported.answers(rows)
    about = _about(options.run, exported.record)
    notes = [exported.note] if exported.note and options.to == "onnx" else []
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as unfinished:
            export_notes, agreement = _write(
                options.to, exported, unfinished, about, rows, reference
            )
            n_bytes = unfinished.stat().st_size
    except OSError as error:
        raise InputError(
            f"{opt('output')} must be a file that can be written, got {file}: "
            f"{error.strerror or error}; name another"
        ) from None
    echo(f"check      {words}: {agreement}")
    for note in (*notes, *export_notes):
        echo(f"note       {note}")
    echo(f"model      {file}: {options.to}, {n_bytes / 2**10:,.0f} KiB")


def _need(format: str) -> None:
    """Raise InputError if a package that a format needs is not installed."""
    from cluster_setup.installation import install_line

    for package in ("onnx", "onnxruntime", "skl2onnx") if format == "onnx" else ():
        if find_spec(package) is None:
            raise InputError(
                f"{opt('to', 'onnx')} needs {package}, which is not installed; run "
                f"{install_line('onnx')}"
            )


def _open(options: Options) -> tuple[Exported, Any, str]:
    """The model of a run, the rows on which it is checked, and a phrase that describes them.

    If the test rows cannot be read any more, support vectors take their place.
    """
    from pipelines.export.compared_rows import rows_of_test, unreadable_data_error
    from pipelines.run.predict import load_model
    from pipelines.run_folder.record import Record, read_record

    _, record = read_record(options.run, Record)
    job, command = job_of(record.command), record.command.replace("_", "-")
    if command not in ("svm-grid", "nn-bagging", "cross-validate"):
        raise InputError(
            f"RUN must be a run of svm-grid, nn-bagging or cross-validate, got {options.run} of "
            f"{command}, which keeps no model to export; name one of these"
        )
    assert job is not None
    metadata, record = read_record(options.run, job.record)
    features = getattr(record.options, "features", None)
    images = record.dataset.image_shape is not None and features is None
    exported: Exported
    if command == "nn-bagging":
        from pipelines.export.networks import ExportedEnsemble

        exported = ExportedEnsemble(_ensemble(options.run, record), record, images)
    elif command == "svm-grid":
        from pipelines.export.svm import ExportedMachine

        exported = ExportedMachine(load_model(options.run), record, images)
    else:
        from pipelines.export.estimators import ExportedEstimator

        exported = ExportedEstimator(load_model(options.run), record, images)
    try:
        return exported, *rows_of_test(job, metadata, record, options.dataset)
    except (InputError, OSError) as error:
        rows = exported.own_rows()
        if rows is None or not len(rows):
            raise unreadable_data_error(error) from None
        text = error.flagged() if isinstance(error, InputError) else str(error)
        return (
            exported,
            rows,
            (
                f"{len(rows):,} support vectors in place of the test rows, which cannot be read "
                f"({text})"
            ),
        )


def _ensemble(run: Path, record: Record) -> Any:
    """The ensemble of all members that a run of ``nn_bagging`` has finished.

    Raises
    ------
    InputError
        There is none, or they are networks of the user's own code.
    """
    from pipelines.bagging.members import READ, MemberFiles
    from pipelines.nn.member import Ensemble
    from pipelines.nn.settings import need_torch
    from pipelines.run_folder.digests import refuse_changed

    need_torch()
    refuse_changed(run, record.files, *READ)
    files = MemberFiles(run)
    ensembles = [Ensemble.load(files.weights(number)) for number in files.numbers()]
    if not ensembles:
        raise InputError(f"RUN must hold a trained member, got {run}, which has none; resume it")
    for member in (ensemble.members[0] for ensemble in ensembles):
        if ":" in (name := member.spec.network):
            raise InputError(
                f"RUN must hold networks of this program or of torchvision, got {name}, your own "
                "code, which is not read from a folder; load it by "
                "pipelines.run.predict.load_model(RUN, network=...), and give its networks to "
                "torch.onnx.export"
            )
    return Ensemble([ensemble.members[0] for ensemble in ensembles], ensembles[0].classes_)


def _about(run: Path, record: Record) -> dict[str, Any]:
    """The metadata that the exported file gets."""
    import pipelines

    table = record.dataset.table
    about = {
        "run": run.resolve().name,
        "command": record.command,
        "dataset": record.dataset.name or "",
        "task": record.dataset.task or "",
        "target": "" if table is None else table.target,
        "class_names": list(record.dataset.classes),
        "features": list(record.dataset.columns),
        "image_shape": list(record.dataset.image_shape or ()),
        "versions": {**record.versions, "pleasingly": pipelines.__version__},
    }
    return about


def _write(
    format: str, exported: Exported, path: Path, about: dict[str, Any], rows: Any, reference: Any
) -> tuple[list[str], str]:
    """Write a model, read it again, and compare its predictions.

    Parameters
    ----------
    format : str
        A key of ``SUFFIXES``.
    exported : Exported
    path : Path
        The file to write, which is replaced.
    about : dict
        Metadata for the file.
    rows : array or frame
        The rows on which predictions are compared.
    reference : Answers
        The predictions of the run's own model on these rows.

    Returns
    -------
    notes : list of str
        What the user should know about the exported model.
    agreement : str
        How it agrees with the run's own model, as text.

    Raises
    ------
    RunStopped
        It does not predict what the run's own model predicts.
    """
    from pipelines.export.check import answers_of_onnx, compare_answers

    if format == "onnx":
        content = exported.graph().model(about)
        path.write_bytes(content)
        return [], compare_answers(reference, answers_of_onnx(content, rows, exported.images))
    if format == "safetensors":
        exported.write_arrays(path, about)
        return [], compare_answers(reference, exported.read_arrays(path).answers(rows))
    from pipelines.export.plain import answers_of_plain, load_plain, write_plain

    model, notes = exported.plain(rows)
    write_plain(path, model, format)
    loaded = load_plain(path, format)
    if format == "sklearn":
        notes.append("loading a pickle runs code: load only your own; --to skops runs none")
    return notes, compare_answers(reference, answers_of_plain(loaded, exported, rows))


if __name__ == "__main__":
    sys.exit(main())
