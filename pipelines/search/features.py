"""``--features``: rows of features in the place of images, computed once on the workers."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from zipfile import BadZipFile

import numpy as np

from pipelines.console import echo
from pipelines.data.scaling import Scaling
from pipelines.errors import InputError, opt
from pipelines.run.errors import RunStopped
from pipelines.run.options import at_least, number, option
from pipelines.run_folder.names import replacing

if TYPE_CHECKING:
    from pipelines.data.dataset import Dataset, ImageShape
    from pipelines.nn.features import Extractor
    from pipelines.run.cluster import Cluster

SAMPLE = 64  # images whose features tell how many there are, and how they vary
BATCH = 512  # images of a task
AS_THEY_ARE = Scaling("none")  # all features of an extractor are of one kind


@dataclass(frozen=True)
class FeatureOptions:
    """What is made of images before they are learned from."""

    group: ClassVar[str] = "data"

    features: str | None = option(
        None, "in place of the pixels of images: hog (histograms of gradients), the last layer but "
        "one of a network of torchvision.models such as resnet18, or a file with a row for each "
        "image",
        metavar="hog|NETWORK|FILE.npy", path="file",
    )  # fmt: skip
    weights: str | None = option(
        None, "the file of that network's weights, or random (default: where torch keeps those "
        "it has downloaded; nothing is downloaded)",
        metavar="FILE|random", path="file",
    )  # fmt: skip
    feature_size: int | None = number(
        None, "resize images for that network to N x N pixels (default: as it was trained)",
        rule=at_least(16, 4096),
    )  # fmt: skip

    @property
    def feature_file(self) -> str | None:
        """The file of features, if it is one."""
        return self.features if (self.features or "").endswith(".npy") else None

    def check(self) -> None:
        """Check options against each other.

        Raises
        ------
        InputError
        """
        for name in ("weights", "feature_size"):
            if getattr(self, name) is not None and (self.features is None or self.feature_file):
                raise InputError(
                    f"{opt(name)} is for {opt('features')} of a network; leave it out, or name one"
                )
        super_check = getattr(super(), "check", None)
        if super_check is not None:
            super_check()


class Features:
    """Features that a search uses in place of the images of a data set.

    Attributes
    ----------
    extractor : Extractor
    """

    def __init__(self, extractor: Extractor, data: Dataset, data_dir: str) -> None:
        self.extractor, self._data = extractor, data
        self._folder = Path(os.path.expanduser(data_dir)) / "features"
        self._key = hashlib.sha256(
            json.dumps([data.fingerprint, extractor.describe()], sort_keys=True).encode()
        ).hexdigest()

    @classmethod
    def of(cls, options: Any, data: Dataset, record: Mapping[str, Any]) -> Features | None:
        """Return what ``options.features`` asks for; None where rows stay as they were read.

        Raises
        ------
        InputError
            The data are no images, there is no such extractor, or a resumed run had another.
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
        return cls(extractor, data, options.data_dir)

    def planned(self) -> Dataset:
        """Return the data set with features of a few images in all rows, to plan with."""
        data = self._data
        assert data.image_shape is not None
        rows = np.linspace(0, len(data.X_train) - 1, SAMPLE).astype(int)
        sample = self.extractor.features(data.X_train[rows], data.image_shape)
        return data.with_features(
            np.resize(sample, (len(data.X_train), sample.shape[1])), sample[:0], AS_THEY_ARE
        )

    def compute(self, cluster: Cluster, quiet: bool) -> Dataset:
        """Return the data set with its features: as they were kept, or computed on the workers.

        Raises
        ------
        InputError
            What was kept is damaged, or the folder cannot be written.
        RunStopped
            A batch failed.
        """
        kept, began = self._folder / f"{self._key}.npz", time.monotonic()
        computed = None if kept.is_file() else self._computed(cluster, quiet)
        took = f", kept in '{self._folder}'"
        try:
            if computed is not None:
                self._folder.mkdir(parents=True, exist_ok=True)
                with replacing(kept) as path, path.open("xb") as file:
                    np.savez(file, train=computed[0], test=computed[1])
                seconds = time.monotonic() - began
                took = f", computed in {seconds:.1f} s and kept in '{self._folder}'"
            with np.load(kept) as arrays:
                train, test = arrays["train"], arrays["test"]
        except (OSError, ValueError, EOFError, KeyError, BadZipFile) as error:
            raise InputError(
                f"{opt('data_dir')} must be a folder with room for features that are whole, got "
                f"'{kept}' ({' '.join(str(error).split())}); delete it, or name another"
            ) from None
        if not quiet:
            echo(f"features   {self.extractor.name}: {train.shape[1]:,} of each image{took}")
        return self._data.with_features(train, test, AS_THEY_ARE)

    def _computed(self, cluster: Cluster, quiet: bool) -> tuple[np.ndarray, np.ndarray]:
        from pipelines.run.progress import show_progress

        parts, shape = (self._data.X_train, self._data.X_test), self._data.image_shape
        runner = cluster.runner
        assert shape is not None
        tasks = [
            FeatureBatch(f"features-{('train', 'test')[part]}-{start}", part, start)
            for part, X in enumerate(parts) for start in range(0, len(X), BATCH)
        ]  # fmt: skip
        work = partial(features_of_batch, shape=shape, device=cluster.device)
        found: dict[FeatureBatch, np.ndarray] = {}
        with show_progress(len(tasks), len(tasks), quiet, lambda: runner.n_workers) as progress:
            for outcome in runner.outcomes(work, (self.extractor, parts), tasks):
                if outcome.error is not None:
                    raise RunStopped(f"features could not be computed: {outcome.error}")
                found[outcome.task] = outcome.result
                progress.advance(outcome.task, failed=False)
        width = next(iter(found.values())).shape[1]
        train, test = (
            np.concatenate([np.empty((0, width), np.float32)]
                           + [found[task] for task in tasks if task.part == part])
            for part in (0, 1)
        )  # fmt: skip
        return train, test


@dataclass(frozen=True)
class FeatureBatch:
    """Images of the training (0) or test rows (1), whose features are a task."""

    name: str
    part: int
    start: int
    cost: float = 1.0


def features_of_batch(
    images: tuple[Extractor, tuple[Any, Any]], task: FeatureBatch, shape: ImageShape, device: str
) -> np.ndarray:
    """Return the features of a batch, float32 of shape (n_images, n_features): a task's work."""
    extractor, parts = images
    return extractor.features(parts[task.part][task.start : task.start + BATCH], shape, device)
