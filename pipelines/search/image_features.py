"""``--features``: features in place of images, computed once on the workers."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np

from pipelines.console import echo
from pipelines.data.scaling import Scaling
from pipelines.errors import InputError, opt
from pipelines.run.errors import RunStopped
from pipelines.run_folder.names import replacing
from pipelines.run_folder.record import read_record
from pipelines.search.record import SearchRecord

if TYPE_CHECKING:
    from pipelines.data.dataset import Dataset, ImageShape
    from pipelines.nn.features import Extractor
    from pipelines.run.cluster import Cluster
    from pipelines.run.new_rows import NewRows

SAMPLE = 64  # images whose features stand for all while a run is planned
BATCH = 512  # images of a task
AS_THEY_ARE = Scaling("none")  # all features of an extractor have the same scale


@dataclass(frozen=True, eq=False)
class Features:
    """Features that a search uses in place of the images of a data set.

    Attributes
    ----------
    extractor : Extractor
        Computes the features of images.
    data : Dataset
        The images.
    folder : Path
        Where computed features are kept for later runs.
    """

    extractor: Extractor
    data: Dataset
    folder: Path

    @classmethod
    def of(cls, options: Any, data: Dataset, record: Mapping[str, Any]) -> Features | None:
        """The features that ``options.features`` asks for; None if the rows stay as they were read.

        Raises
        ------
        InputError
            The data are not images, there is no such extractor, or a resumed run used other
            weights.
        """
        if options.features is None or options.feature_file is not None:
            return None
        if data.image_shape is None:
            raise InputError(f"{opt('features')} are of images, {data.name} has none; leave it out")
        from pipelines.nn.features import Extractor

        extractor = Extractor.of(options.features, options.feature_size, options.weights)
        if record.get("features", extractor.describe()) != extractor.describe():
            raise InputError(
                f"{opt('resume')} needs the {opt('weights')} it began with, and they have changed; "
                f"start a new run with {opt('results')}"
            )
        return cls(extractor, data, Path(os.path.expanduser(options.data_dir)) / "features")

    def planned(self) -> Dataset:
        """A stand-in for planning: the data set with the features of a few images repeated."""
        data = self.data
        assert data.image_shape is not None
        rows = np.linspace(0, len(data.X_train) - 1, SAMPLE).astype(int)
        sample = self.extractor.features(data.X_train[rows], data.image_shape)
        return data.with_features(
            np.resize(sample, (len(data.X_train), sample.shape[1])), sample[:0], AS_THEY_ARE
        )

    def compute(self, cluster: Cluster, quiet: bool) -> Dataset:
        """The data set with its features, read from the folder or computed on the workers.

        Raises
        ------
        InputError
            The kept file is damaged, or the folder cannot be written.
        RunStopped
            The features of a batch could not be computed.
        """
        from pipelines.run.progress import show_progress

        identity = json.dumps([self.data.fingerprint, self.extractor.describe()], sort_keys=True)
        kept_file = self.folder / f"{hashlib.sha256(identity.encode()).hexdigest()}.npz"
        ending, began = f", kept in '{self.folder}'", time.monotonic()
        sides, shape = (self.data.X_train, self.data.X_test), self.data.image_shape
        tasks = [
            FeatureBatch(f"features-{('train', 'test')[side]}-{start}", side, start)
            for side, X in enumerate(sides)
            for start in range(0, len(X), BATCH)
            if not kept_file.is_file()
        ]
        batch_features: dict[FeatureBatch, np.ndarray] = {}
        if tasks:
            assert shape is not None
            runner = cluster.runner
            work = partial(features_of_batch, shape=shape, device=cluster.device)
            with show_progress(len(tasks), len(tasks), quiet, runner.presence) as progress:
                for outcome in runner.outcomes(work, (self.extractor, sides), tasks):
                    if outcome.error is not None:
                        raise RunStopped(f"features could not be computed: {outcome.error}")
                    batch_features[outcome.task] = outcome.result
                    progress.advance(outcome.task, failed=False)
        try:
            if tasks:
                no_features = np.empty((0, batch_features[tasks[0]].shape[1]), np.float32)
                train, test = (
                    np.concatenate(
                        [
                            no_features,
                            *(batch_features[task] for task in tasks if task.side == side),
                        ]
                    )
                    for side in (0, 1)
                )
                self.folder.mkdir(parents=True, exist_ok=True)
                with replacing(kept_file) as path, path.open("xb") as file:
                    np.savez(file, train=train, test=test)
                seconds = time.monotonic() - began
                ending = f", computed in {seconds:.1f} s and kept in '{self.folder}'"
            with np.load(kept_file) as arrays:
                train, test = arrays["train"], arrays["test"]
        except (OSError, ValueError, EOFError, KeyError, BadZipFile) as error:
            raise InputError(
                f"{opt('data_dir')} must be a folder with room for features that are whole, got "
                f"'{kept_file}' ({' '.join(str(error).split())}); delete it, or name another"
            ) from None
        if not quiet:
            echo(f"features   {self.extractor.name}: {train.shape[1]:,} of each image{ending}")
        return self.data.with_features(train, test, AS_THEY_ARE)


@dataclass(frozen=True)
class FeatureBatch:
    """A task: the features of ``BATCH`` images of the training (side 0) or test rows (side 1)."""

    name: str
    side: int
    start: int
    cost: float = 1.0


def features_of_batch(
    images: tuple[Extractor, tuple[Any, Any]], task: FeatureBatch, shape: ImageShape, device: str
) -> np.ndarray:
    """Compute the features of a batch: the work of a ``FeatureBatch``.

    Parameters
    ----------
    images : tuple
        The extractor, and the images of the training and of the test rows.
    task : FeatureBatch
    shape : ImageShape
    device : {"cpu", "gpu"}

    Returns
    -------
    float32 array of shape (n_images, n_features)
    """
    extractor, sides = images
    return extractor.features(sides[task.side][task.start : task.start + BATCH], shape, device)


def features_of_rows(rows: NewRows, run: Path) -> Any:
    """New rows as a run's model takes them: images become the features it was fitted on.

    Raises
    ------
    InputError
        The features cannot be computed from an image, or the weights file has changed.
    """
    _, record = read_record(run, SearchRecord)
    if rows.unreadable is None or (features := record.options.features) is None:
        return rows.X
    from pipelines.nn.features import Extractor

    if (entry := record.features) is None:
        raise InputError(
            "RUN must hold features that can be computed of an image, got those of "
            f"'{features}'; run it anew with --features hog or a network"
        )
    extractor = Extractor.of(entry.name, entry.size, record.options.weights)
    if extractor.describe() != entry.model_dump():
        raise InputError(
            f"RUN needs the weights of {entry.name} that it was run with, and they have changed; "
            "put the file back, or run it anew"
        )
    form = record.image_form
    assert form is not None
    return extractor.features(rows.X, (form.channels, form.height, form.width))
