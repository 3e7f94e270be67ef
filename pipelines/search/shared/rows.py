"""The rows of a task's splits, as the last steps of its candidates are fitted on them."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.data.dataset import rows_of
from pipelines.data.placement import FoldedData, cached
from pipelines.search.shared.base import Split

if TYPE_CHECKING:
    from pipelines.search.candidate_scorer import CandidateScorer
    from pipelines.search.shared.pipeline_steps import Rows


class SplitRows:
    """Rows of some splits; the parts of a split are ``"train"`` and ``"test"``.

    Parameters
    ----------
    data : FoldedData of the search; where its scaling learns, ``matrix`` is of one split alone
    splits : all there are
    numbers : those of the task, among them
    scorer : CandidateScorer, which tells the parts that are asked about, and weights
    name : tells these splits from others of the same data
    n_threads : that a fit may use; None for those that BLAS uses
    estimator : one of the candidates, as scikit-learn asks it whether rows are a kernel
    """

    def __init__(
        self, data: FoldedData, splits: Sequence[Split], numbers: Sequence[int],
        scorer: CandidateScorer, name: Hashable, n_threads: int | None, estimator: Any,
    ) -> None:  # fmt: skip
        self.data, self.splits, self.numbers, self.scorer = data, splits, numbers, scorer
        self.name, self.n_threads, self._estimator = name, n_threads, estimator
        self.n_splits = len(numbers)
        self._found: dict[tuple[int, str], tuple[Any, Any]] = {}
        self._prepared: Rows | None = None

    def alone(self, split: int) -> SplitRows:
        """Return the rows of one split that shares no array with others."""
        number = self.numbers[split]
        return SplitRows(
            self.data, [self.splits[number]], [0], self.scorer, (self.name, number),
            self.n_threads, self._estimator,
        )  # fmt: skip

    def after(self, prepared: Rows) -> SplitRows:
        """Return these rows, of one split, as they are after the first steps of pipelines."""
        found = copy.copy(self)
        found._prepared = prepared
        return found

    def part_of(self, split: int, name: str) -> tuple[Any, Any]:
        """Return rows and targets of a part as the data have them, before any step."""
        key = split, name
        if key not in self._found:
            X, y = self.data.X, self.data.y
            train, test = self.splits[self.numbers[split]]
            if not hasattr(self._estimator, "fit"):
                some = test if name == "test" else train
                self._found[key] = rows_of(X, some), y[some]
            else:
                from sklearn.utils.metaestimators import _safe_split

                own = (train,) if name == "train" else (test, train)
                self._found[key] = _safe_split(self._estimator, X, y, *own)
        return self._found[key]

    def targets(self, split: int, name: str) -> np.ndarray:
        """Return the targets of a part; see ``part_of``."""
        if isinstance(self.data.y, np.ndarray):
            found: np.ndarray = self.data.y[self.splits[self.numbers[split]][name == "test"]]
            return found
        return self.part_of(split, name)[1]

    def train(self, split: int) -> tuple[Any, Any]:
        """Return training rows of a split and their targets."""
        X, y = self.part_of(split, "train")
        return (X if self._prepared is None else self._prepared.fit), y

    def asked(self, split: int) -> Mapping[str, Any]:
        """Return rows to predict: ``test``, and ``train`` where train scores are wanted."""
        if self._prepared is not None:
            return self._prepared.asked
        return {name: self.part_of(split, name)[0] for name in self.scorer.parts}

    def matrix(self, device: str) -> tuple[Any, np.ndarray, list[Split]]:
        """Return all rows as one array on a device, their targets, and for every split there is the
        numbers of the training rows and of the rows of ``asked``, one part after the other."""
        if self._prepared is not None:
            targets = (self.part_of(0, name)[1] for name in ("train", "test"))
            return self._prepared.matrix(device, *targets)
        splits = list(self.splits)
        if self.scorer.train_scores:

            def with_train(train: np.ndarray, test: np.ndarray) -> Split:
                return train, np.concatenate([test, train])

            # Made once for all tasks, which know splits by their arrays.
            splits = [
                cached((self.data.token, f"asked {self.name} {i}"), partial(with_train, *split))
                for i, split in enumerate(self.splits)
            ]
        learned_on = self.splits[0][0] if self.data.scaling.learns else None
        return self.data.scaled(device, rows=learned_on), np.asarray(self.data.y), splits

    def n_rows(self, split: int, name: str) -> int:
        """Return the number of rows of a part of a split."""
        return len(self.splits[self.numbers[split]][name == "test"])

    def part(self, split: int, name: str) -> slice:
        """Return the places of a part of a split among the rows of ``matrix`` that are asked."""
        n_test = self.n_rows(split, "test")
        return slice(0, n_test) if name == "test" else slice(n_test, None)

    def weights(self, split: int | None) -> np.ndarray | None:
        """Return sample weights of a split's training rows, or of all rows; None if all weigh 1."""
        found = self._metadata(self.scorer.fit_params, split, "train").get("sample_weight")
        return None if found is None else np.asarray(found, np.float64)

    def score_params(self, split: int, name: str) -> Mapping[str, Any]:
        """Return the metadata that scorers of a part are given, such as sample weights."""
        return self._metadata(self.scorer.score_params, split, name)

    def _metadata(
        self, params: Mapping[str, Any] | None, split: int | None, name: str
    ) -> Mapping[str, Any]:
        if not params:
            return {}
        from sklearn.utils.validation import _check_method_params

        rows = None if split is None else self.splits[self.numbers[split]][name == "test"]
        return _check_method_params(self.data.X, params=params, indices=rows)
