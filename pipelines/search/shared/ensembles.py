"""Ensembles: a smaller one consists of the first members of a larger one.

Forests and bagging draw the seed of each member from one generator, in order; boosting adds members
one by one. So the ensemble with the most members contains all smaller ones.
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

# Limits of memory. Above the first, members of AdaBoost do not keep their predictions: it is the
# number of members times that of rows. The second counts the nodes of the trees of all forests of a
# group, about 100 bytes each.
MOST_ANSWERS = 2**26
MOST_NODES = 2**24
TREES_AT_ONCE = 8  # per thread; their predictions are held until they are summed, in order


class Prefixes(SharedEstimators):
    """Ensembles of several sizes, all cut from one fit of the largest.

    Attributes
    ----------
    size : str
        Name of the parameter that sets the number of members.
    lists : sequence of str
        Names of fitted attributes with an element for each member.
    seeds_members : bool
        Whether the ensemble sets the seeds of its members itself, whatever seed ``estimator`` has.
    draws_ahead : bool
        Whether its draws from the generator do not depend on earlier members. If they do,
        a ``RandomState`` is refused: no cut could leave it in the state of a separate fit.
    """

    takes_weights = True
    by_chance = True
    size = "n_estimators"
    lists: Sequence[str] = ("estimators_",)
    seeds_members = False
    draws_ahead = True

    @property
    def shared(self) -> Collection[str]:  # type: ignore[override]
        """Only the number of members."""
        return (self.size,)

    def group_key(self, estimator: Any) -> Hashable | None:
        if not self.accepts(estimator) or not is_repeatable(estimator, not self.seeds_members):
            return None
        return identity(estimator, self.shared)

    def accepts(self, estimator: Any) -> bool:
        """Whether it has a number of members, and nothing in it depends on later members."""
        size = getattr(estimator, self.size)
        # ``oob_score`` is computed from all members at once, so it cannot be cut.
        of_all = any(getattr(estimator, name, False) for name in ("warm_start", "oob_score"))
        draws = self.draws_ahead or not isinstance(estimator.random_state, np.random.RandomState)
        is_size = isinstance(size, Integral) and not isinstance(size, bool) and int(size) > 0
        return is_size and not of_all and draws

    def fit(self, estimators: Sequence[Any], X: Any, y: Any, **weights: Any) -> list[Any]:
        """See ``SharedEstimators.fit``; the largest is fitted, the others are cut from it."""
        # A clone: ``cut`` needs each estimator's generator as it was before the fit.
        largest = clone(max(estimators, key=self.size_of)).fit(X, y, **weights)
        return [self.cut(largest, estimator) for estimator in estimators]

    def size_of(self, estimator: Any) -> int:
        """The number of members that an ensemble asks for."""
        return int(getattr(estimator, self.size))

    def cut(self, largest: Any, estimator: Any) -> Any:
        """The fitted ensemble for an unfitted one: the first members of the largest.

        Parameters
        ----------
        largest : fitted ensemble
        estimator : unfitted ensemble
            Determines the number of members.
        """
        smaller, n = copy.copy(largest), self.size_of(estimator)
        setattr(smaller, self.size, getattr(estimator, self.size))
        for name in self.lists:
            if hasattr(largest, name):
                setattr(smaller, name, getattr(largest, name)[:n])
        if isinstance(estimator.random_state, np.random.RandomState):
            smaller.random_state = self.generator_after(largest, estimator)
        return smaller

    def generator_after(self, largest: Any, estimator: Any) -> np.random.RandomState:
        """The generator as a separate fit leaves it, after a draw for each member."""
        generator: np.random.RandomState = copy.deepcopy(estimator.random_state)
        generator.randint(np.iinfo(np.int32).max, size=self.size_of(estimator))
        return generator


class Forests(Prefixes):
    """Random forests and extremely randomised trees; trees in common predict once."""

    name = "prefixes of one forest"
    types = (
        ensemble.RandomForestClassifier,
        ensemble.RandomForestRegressor,
        ensemble.ExtraTreesClassifier,
        ensemble.ExtraTreesRegressor,
    )

    @property
    def shared(self) -> Collection[str]:  # type: ignore[override]
        """The number of trees, and the limits by which a tree is cut or pruned."""
        return self.size, LEAVES, ALPHA

    def group_key(self, estimator: Any) -> Hashable | None:
        """See ``SharedFit.group_key`` and ``Trees``."""
        key = super().group_key(estimator)
        return None if key is None else (key, estimator.max_leaf_nodes is None)

    def accepts(self, estimator: Any) -> bool:
        return super().accepts(estimator) and can_be_cut(estimator)

    def fit(self, estimators: Sequence[Any], X: Any, y: Any, **weights: Any) -> list[Any]:
        """See ``SharedEstimators.fit``; one forest is grown, and cut for each pair of limits.

        Raises
        ------
        ValueError
            The forests together have more than ``MOST_NODES`` nodes.
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
        """Positions of the forests by their limits, ``max_leaf_nodes`` and ``ccp_alpha``."""
        places: dict[Hashable, list[int]] = {}
        for i, forest in enumerate(forests):
            places.setdefault((forest.max_leaf_nodes, forest.ccp_alpha), []).append(i)
        return places

    def predict(self, fitted: Sequence[Any], method: str, X: Any) -> list[np.ndarray] | None:
        """Predict once with each tree that several forests have in common."""
        if fitted[0].n_outputs_ > 1:
            return None
        predicted: list[Any] = list(fitted)
        for places in self._by_limits(fitted).values():
            responses = self._predict_alike([fitted[i] for i in places], method, X)
            for i, values in zip(places, responses, strict=True):
                predicted[i] = values
        return predicted

    def _predict_alike(self, fitted: Sequence[Any], method: str, X: Any) -> list[np.ndarray]:
        """Predictions of forests with equal limits, from running sums over the trees.

        The sums are in the order in which the forest itself adds: they are equal to the bit.
        """
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
    """Isolation forests; ``contamination`` only decides the threshold of the scores."""

    name = "prefixes of one isolation forest"
    types = (ensemble.IsolationForest,)
    lists = (*Bags.lists, "_average_path_length_per_tree", "_decision_path_lengths")
    draws_ahead = False

    @property
    def shared(self) -> Collection[str]:  # type: ignore[override]
        """The number of trees, and the fraction of outliers."""
        return self.size, "contamination"

    def accepts(self, estimator: Any) -> bool:
        outliers = estimator.contamination
        is_fraction = isinstance(outliers, float) and 0 < outliers <= 0.5
        return super().accepts(estimator) and (is_fraction or outliers == "auto")

    def fit(self, estimators: Sequence[Any], X: Any, y: Any, **weights: Any) -> list[Any]:
        """See ``Prefixes.fit``; thresholds are then set from the scores of the training rows."""
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
    """Gradient boosting, which predicts for all sizes in one pass through its stages.

    With early stopping all sizes that are not smaller end at the same stage: the rows held out, and
    the scores up to that stage, are the same.
    """

    name = "stages of one boosting"
    types = (ensemble.GradientBoostingClassifier, ensemble.GradientBoostingRegressor)
    lists: Sequence[str] = ("estimators_", "train_score_", "oob_improvement_", "oob_scores_")
    draws_ahead = False

    def cut(self, largest: Any, estimator: Any) -> Any:
        """See ``Prefixes.cut``; attributes about the last stage are set anew."""
        smaller = super().cut(largest, estimator)
        if hasattr(smaller, "n_estimators_"):
            smaller.n_estimators_ = self.n_stages(smaller)
        if hasattr(smaller, "oob_scores_"):
            smaller.oob_score_ = smaller.oob_scores_[-1]
        return smaller

    def n_stages(self, fitted: Any) -> int:
        """The number of stages that were fitted, fewer than asked for after early stopping."""
        return len(getattr(fitted, self.lists[0]))

    def predict(self, fitted: Sequence[Any], method: str, X: Any) -> list[np.ndarray] | None:
        """Predict with ensembles of all sizes in one pass through the stages."""
        largest = max(fitted, key=self.size_of)
        staged_method = getattr(largest, f"staged_{method}", None)
        if staged_method is None:
            return None
        stage_counts = {self.n_stages(model) for model in fitted}
        # Copied, as scikit-learn may add the next stage to the array that it yields. For two
        # classes a stage is a column.
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
        for name in ("train_score_", "validation_score_"):  # the first score is before any stage
            setattr(smaller, name, getattr(largest, name)[: self.size_of(estimator) + 1])
        # Early stopping by a scorer stores this method on the instance, bound to the largest.
        vars(smaller).pop("_raw_predict", None)
        return smaller

    def generator_after(self, largest: Any, estimator: Any) -> np.random.RandomState:
        """See ``Prefixes``; a fit draws equally often, whatever the number of members."""
        return copy.deepcopy(largest.random_state)


class AdaBoosts(Prefixes):
    """AdaBoost, each of whose members predicts once.

    It ends early where a member makes no error, or too many. All sizes that are not smaller end at
    the same member; the weights after it are 0.
    """

    name = "members of one AdaBoost"
    types = (ensemble.AdaBoostClassifier, ensemble.AdaBoostRegressor)
    lists = ("estimators_", "estimator_weights_", "estimator_errors_")
    seeds_members = True
    draws_ahead = False

    def predict(self, fitted: Sequence[Any], method: str, X: Any) -> list[np.ndarray] | None:
        """Predict with all ensembles, whose members keep their predictions of these rows.

        ``staged_predict`` is not used: it sums weights in another order, so that the last bits
        differ.
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
    """A member of an ensemble that keeps its predictions, as all calls have the same rows."""

    def __init__(self, member: Any) -> None:
        self._member, self._answer = member, None

    def predict(self, X: Any) -> Any:
        """Its predictions, computed at the first call."""
        if self._answer is None:
            self._answer = self._member.predict(X)
        return self._answer


SHARED_FITS = (Forests(), Bags(), IsolationForests(), Boosting(), HistogramBoosting(), AdaBoosts())
