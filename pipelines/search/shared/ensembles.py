"""Ensembles of trees: a smaller one is the beginning of a larger one.

Forests and bagging draw the seed of each tree from one generator, in order; boosting adds
trees one by one. So what is fitted with the most members has all smaller ones in it.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Hashable, Sequence
from itertools import islice
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from joblib import Parallel, delayed
from sklearn import ensemble
from sklearn.base import clone

from pipelines.search.shared.base import SharedEstimators, identity, is_repeatable
from pipelines.search.shared.trees import (
    ALPHA,
    LEAVES,
    Growth,
    can_be_cut,
    largest_alpha,
    uncut_estimator,
)

MOST_ANSWERS = 2**26  # of members about rows, that are held at once
MOST_NODES = 2**24  # of the trees of all forests, each some 100 bytes
TREES_AT_ONCE = 8  # for each thread: what they say is held until it is added up, in order


class Prefixes(SharedEstimators):
    """Ensembles of several sizes from one fit of the largest, whose first members they are.

    Attributes
    ----------
    size : str
        The parameter that is the number of members.
    lists : names of fitted attributes with an element for each member
    seeds_members : bool
        Whether it gives each member its seeds, whatever those of ``estimator`` are.
    draws_ahead : bool
        Whether what it draws from its generator does not depend on what was fitted before: of
        others, a generator would end in a state that no separate fit leaves.
    """

    by_chance = True
    size = "n_estimators"
    lists: Sequence[str] = ("estimators_",)
    seeds_members = False
    draws_ahead = True

    @property
    def shared(self) -> Collection[str]:  # type: ignore[override]
        """The number of members alone."""
        return (self.size,)

    def group_key(self, estimator: Any) -> Hashable | None:
        if not self.accepts(estimator) or not is_repeatable(estimator, not self.seeds_members):
            return None
        return identity(estimator, self.shared)

    def accepts(self, estimator: Any) -> bool:
        """Return a number of members, and nothing that depends on members to come."""
        size = getattr(estimator, self.size)
        # Rows out of the bag are estimated for all members at once.
        of_all = any(getattr(estimator, name, False) for name in ("warm_start", "oob_score"))
        draws = self.draws_ahead or not isinstance(estimator.random_state, np.random.RandomState)
        is_size = isinstance(size, Integral) and not isinstance(size, bool) and int(size) > 0
        return is_size and not of_all and draws

    def fit(self, estimators: Sequence[Any], X: Any, y: Any, **weights: Any) -> list[Any]:
        # A clone, as the others need the generator as it was.
        largest = clone(max(estimators, key=self.size_of)).fit(X, y, **weights)
        return [self.cut(largest, estimator) for estimator in estimators]

    def size_of(self, estimator: Any) -> int:
        """Return the number of members of an ensemble."""
        return int(getattr(estimator, self.size))

    def cut(self, largest: Any, estimator: Any) -> Any:
        """The fitted ensemble with as many first members as an unfitted one asks for."""
        smaller, n = copy.copy(largest), self.size_of(estimator)
        setattr(smaller, self.size, getattr(estimator, self.size))
        for name in self.lists:
            if hasattr(largest, name):
                setattr(smaller, name, getattr(largest, name)[:n])
        if isinstance(estimator.random_state, np.random.RandomState):
            smaller.random_state = self.generator_after(largest, estimator)
        return smaller

    def generator_after(self, largest: Any, estimator: Any) -> np.random.RandomState:
        """The generator as a separate fit leaves it, which draws a seed for each member."""
        generator: np.random.RandomState = copy.deepcopy(estimator.random_state)
        generator.randint(np.iinfo(np.int32).max, size=self.size_of(estimator))
        return generator


class Forests(Prefixes):
    """Random forests and extremely randomised trees; their trees are asked once."""

    name = "prefixes of one forest"
    types = (
        ensemble.RandomForestClassifier,
        ensemble.RandomForestRegressor,
        ensemble.ExtraTreesClassifier,
        ensemble.ExtraTreesRegressor,
    )

    @property
    def shared(self) -> Collection[str]:  # type: ignore[override]
        """The number of trees, and what each tree is cut and pruned by."""
        return self.size, LEAVES, ALPHA

    def group_key(self, estimator: Any) -> Hashable | None:
        """See ``SharedFit.group_key`` and ``Trees``."""
        key = super().group_key(estimator)
        return None if key is None else (key, estimator.max_leaf_nodes is None)

    def accepts(self, estimator: Any) -> bool:
        return super().accepts(estimator) and can_be_cut(estimator)

    def fit(self, estimators: Sequence[Any], X: Any, y: Any, **weights: Any) -> list[Any]:
        """See ``SharedEstimators.fit``.

        Raises
        ------
        ValueError
            The trees would be too many to hold at once.
        """
        by_limits = self._by_limits(estimators)
        if len(by_limits) == 1:
            return super().fit(estimators, X, y, **weights)
        n_trees, max_alpha = max(map(self.size_of, estimators)), largest_alpha(estimators)
        grown = uncut_estimator(estimators).set_params(n_estimators=n_trees).fit(X, y, **weights)
        growths = [(tree, Growth(tree.tree_, max_alpha)) for tree in grown.estimators_]
        fitted, n_nodes = list(estimators), 0
        for places in by_limits.values():
            group = [estimators[i] for i in places]
            first = group[0]
            forest, n_trees = copy.copy(grown), max(map(self.size_of, group))
            forest.max_leaf_nodes, forest.ccp_alpha = first.max_leaf_nodes, first.ccp_alpha
            forest.estimators_ = [growth.cut(tree, first) for tree, growth in growths[:n_trees]]
            n_nodes += sum(tree.tree_.node_count for tree in forest.estimators_)
            if n_nodes > MOST_NODES:
                raise ValueError(f"these forests have more than {MOST_NODES:,} nodes")
            for i in places:
                fitted[i] = self.cut(forest, estimators[i])
        return fitted

    def _by_limits(self, forests: Sequence[Any]) -> dict[Hashable, list[int]]:
        """The places of the forests whose trees are cut and pruned alike."""
        places: dict[Hashable, list[int]] = {}
        for i, forest in enumerate(forests):
            places.setdefault((forest.max_leaf_nodes, forest.ccp_alpha), []).append(i)
        return places

    def predict(self, fitted: Sequence[Any], method: str, X: Any) -> list[np.ndarray] | None:
        """Predict with the trees that are alike once for all forests that have them."""
        if fitted[0].n_outputs_ > 1:
            return None
        predicted: list[Any] = list(fitted)
        for places in self._by_limits(fitted).values():
            responses = self._predict_alike([fitted[i] for i in places], method, X)
            for i, values in zip(places, responses, strict=True):
                predicted[i] = values
        return predicted

    def _predict_alike(self, fitted: Sequence[Any], method: str, X: Any) -> list[np.ndarray]:
        """Return sums over the first trees, in the order in which the forest itself adds them."""
        largest = max(fitted, key=self.size_of)
        of_classes = hasattr(largest, "classes_")
        tree_method = "predict_proba" if of_classes else "predict"
        X, trees, n_jobs = largest._validate_X_predict(X), iter(largest.estimators_), largest.n_jobs
        batch_size = TREES_AT_ONCE * (1 if n_jobs in (None, 1) else 8)
        sizes, total, n, means = {self.size_of(model) for model in fitted}, 0.0, 0, {}
        with Parallel(n_jobs=n_jobs or 1, require="sharedmem") as parallel:
            while batch := list(islice(trees, batch_size)):
                for votes in parallel(
                    delayed(getattr(tree, tree_method))(X, check_input=False) for tree in batch
                ):
                    total, n = total + votes, n + 1
                    if n in sizes:
                        means[n] = total / n
        responses = [means[self.size_of(model)] for model in fitted]
        if not of_classes or method == "predict_proba":
            return responses
        if method == "predict_log_proba":
            return [np.log(response) for response in responses]
        return [largest.classes_.take(np.argmax(response, axis=1)) for response in responses]


class Bags(Prefixes):
    """Bagging of any estimator."""

    name = "prefixes of one bag"
    types: ClassVar[Collection[type]] = (ensemble.BaggingClassifier, ensemble.BaggingRegressor)
    seeds_members = True
    lists: Sequence[str] = ("estimators_", "estimators_features_", "_seeds")


class IsolationForests(Bags):
    """Isolation forests; ``contamination`` decides no more than where scores are cut."""

    name = "prefixes of one isolation forest"
    types = (ensemble.IsolationForest,)
    lists = (*Bags.lists, "_average_path_length_per_tree", "_decision_path_lengths")
    draws_ahead = False

    @property
    def shared(self) -> Collection[str]:  # type: ignore[override]
        """The number of trees, and the share of outliers."""
        return self.size, "contamination"

    def accepts(self, estimator: Any) -> bool:
        outliers = estimator.contamination
        is_fraction = isinstance(outliers, float) and 0 < outliers <= 0.5
        return super().accepts(estimator) and (is_fraction or outliers == "auto")

    def fit(self, estimators: Sequence[Any], X: Any, y: Any, **weights: Any) -> list[Any]:
        clones = [clone(estimator).set_params(contamination="auto") for estimator in estimators]
        fitted, scores = super().fit(clones, X, y, **weights), dict[int, np.ndarray]()
        for model, estimator in zip(fitted, estimators, strict=True):
            model.contamination = contamination = estimator.contamination
            if contamination != "auto":
                n = self.size_of(model)
                scores[n] = scores[n] if n in scores else model.score_samples(X)
                model.offset_ = np.percentile(scores[n], 100.0 * contamination)
        return fitted


class Boosting(Prefixes):
    """Gradient boosting; the stages are asked once, one after the other.

    One that ends early ends at the same stage whatever its size, if that is not smaller: the rows
    that are held out, and the scores so far, are the same.
    """

    name = "stages of one boosting"
    types = (ensemble.GradientBoostingClassifier, ensemble.GradientBoostingRegressor)
    lists: Sequence[str] = ("estimators_", "train_score_", "oob_improvement_", "oob_scores_")
    draws_ahead = False

    def cut(self, largest: Any, estimator: Any) -> Any:
        smaller = super().cut(largest, estimator)
        if hasattr(smaller, "n_estimators_"):
            smaller.n_estimators_ = self.n_stages(smaller)
        if hasattr(smaller, "oob_scores_"):
            smaller.oob_score_ = smaller.oob_scores_[-1]
        return smaller

    def n_stages(self, fitted: Any) -> int:
        """The number of stages, below that which was asked for where it ended early."""
        return len(getattr(fitted, self.lists[0]))

    def predict(self, fitted: Sequence[Any], method: str, X: Any) -> list[np.ndarray] | None:
        """Predict with ensembles of all sizes in one pass through the stages."""
        largest = max(fitted, key=self.size_of)
        staged_method = getattr(largest, f"staged_{method}", None)
        if staged_method is None:
            return None
        stage_counts = {self.n_stages(model) for model in fitted}
        # A stage may be an array that the next one is added to; of two classes it is a column.
        responses = {
            n: np.array(stage[:, 0] if np.shape(stage)[1:] == (1,) else stage, copy=True)
            for n, stage in enumerate(staged_method(X), 1)
            if n in stage_counts
        }
        return [responses[self.n_stages(model)] for model in fitted]


class HistogramBoosting(Boosting):
    """Gradient boosting on histograms."""

    types = (ensemble.HistGradientBoostingClassifier, ensemble.HistGradientBoostingRegressor)
    size = "max_iter"
    lists = ("_predictors",)
    draws_ahead = True

    def cut(self, largest: Any, estimator: Any) -> Any:
        smaller = super().cut(largest, estimator)
        for name in ("train_score_", "validation_score_"):  # the first is of no stage
            setattr(smaller, name, getattr(largest, name)[: self.size_of(estimator) + 1])
        # Early ends by a scorer's name leave this method with the instance, bound to the largest.
        vars(smaller).pop("_raw_predict", None)
        return smaller

    def generator_after(self, largest: Any, estimator: Any) -> np.random.RandomState:
        """See ``Prefixes``; every fit draws as many seeds, whatever the number of members."""
        return copy.deepcopy(largest.random_state)


class AdaBoosts(Prefixes):
    """AdaBoost; each member is asked once.

    One that ends early, as a member makes no error or too many, does so at the same member
    whatever its size, if that is not smaller; the weights of members to come are 0.
    """

    name = "members of one AdaBoost"
    types = (ensemble.AdaBoostClassifier, ensemble.AdaBoostRegressor)
    lists = ("estimators_", "estimator_weights_", "estimator_errors_")
    seeds_members = True
    draws_ahead = False

    def predict(self, fitted: Sequence[Any], method: str, X: Any) -> list[np.ndarray] | None:
        """Have every ensemble add up what its members said when the first of them asked.

        ``staged_predict`` sums weights in another order, so that its last bits are others.
        """
        members = [_Member(member) for member in max(fitted, key=self.size_of).estimators_]
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        if len(members) * n_rows > MOST_ANSWERS:
            return None
        predicted = []
        for model in fitted:
            model = copy.copy(model)
            model.estimators_ = members[: len(model.estimators_)]
            predicted.append(getattr(model, method)(X))
        return predicted


class _Member:
    """A member of an ensemble, asked about the same rows time and again."""

    def __init__(self, member: Any) -> None:
        self._member, self._answer = member, None

    def predict(self, X: Any) -> Any:
        """Its predictions, made at the first call."""
        if self._answer is None:
            self._answer = self._member.predict(X)
        return self._answer


SHARED_FITS = (Forests(), Bags(), IsolationForests(), Boosting(), HistogramBoosting(), AdaBoosts())
