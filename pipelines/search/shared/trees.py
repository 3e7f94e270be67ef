"""Decision trees: a smaller one is cut, or pruned, from one that has grown on.

A tree with ``max_leaf_nodes`` grows best-first: of the nodes at its border the one that gains
most is split, again and again. So one of fewer leaves is its beginning, with the same numbers of
nodes and the same draws. Cost-complexity pruning, ``ccp_alpha``, comes after the growth and draws
nothing.

Any other tree grows depth-first, and draws the features of a node after those of all nodes to its
left. One of another depth, or with other limits for its nodes, draws others: these share nothing.
"""

from __future__ import annotations

import copy
import heapq
import math
from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.tree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)

from pipelines.search.shared.base import SharedEstimators

LEAVES, ALPHA = "max_leaf_nodes", "ccp_alpha"
NO_CHILD, NO_SPLIT = -1, -2  # in scikit-learn's nodes: of a leaf; its feature and threshold


class Trees(SharedEstimators):
    """Trees of several ``max_leaf_nodes`` and ``ccp_alpha`` from one."""

    name = "one tree, cut and pruned"
    types = (DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor)
    shared = (LEAVES, ALPHA)
    by_chance = True

    def group_key(self, estimator: Any) -> Hashable | None:
        key = super().group_key(estimator)
        return None if key is None else (key, estimator.max_leaf_nodes is None)

    def accepts(self, estimator: Any) -> bool:
        """See ``SharedFit.accepts``; a splitter that is an object may keep a state."""
        is_usual = isinstance(estimator.splitter, str) and isinstance(estimator.criterion, str)
        return is_usual and can_be_cut(estimator)

    def fit(self, estimators: Sequence[Any], X: Any, y: Any, **weights: Any) -> list[Any]:
        if len(estimators) == 1:  # its own pruning is the faster
            return [estimators[0].fit(X, y, **weights)]
        grown = uncut_estimator(estimators).fit(X, y, **weights)
        growth, fitted = Growth(grown.tree_, largest_alpha(estimators)), []
        for estimator in estimators:
            model = growth.cut(grown, estimator)
            model.random_state = copy.deepcopy(grown.random_state)
            fitted.append(model)
        return fitted

    def predict(self, fitted: Sequence[Any], method: str, X: Any) -> list[np.ndarray] | None:
        """Have every tree predict rows that are checked once."""
        if method == "predict_log_proba":
            return None
        X = fitted[0]._validate_X_predict(X, check_input=True)
        return [getattr(model, method)(X, check_input=False) for model in fitted]


def can_be_cut(estimator: Any) -> bool:
    """Whether a tree, or a forest, has limits that scikit-learn would take."""
    leaves, alpha = estimator.max_leaf_nodes, estimator.ccp_alpha
    return (leaves is None or (isinstance(leaves, Integral) and int(leaves) > 1)) and (
        isinstance(alpha, Real) and 0 <= float(alpha) < math.inf
    )


def uncut_estimator(estimators: Sequence[Any]) -> Any:
    """An unfitted tree, or forest, that holds those of all limits; see ``Growth``."""
    largest = max(estimators, key=lambda estimator: estimator.max_leaf_nodes or 0)
    return clone(largest).set_params(**{ALPHA: 0.0})


def largest_alpha(estimators: Sequence[Any]) -> float:
    """The ``ccp_alpha`` of the tree, or forest, that is pruned most."""
    return max(float(estimator.ccp_alpha) for estimator in estimators)


class Growth:
    """The smaller trees that a grown tree holds.

    Parameters
    ----------
    tree : scikit-learn's ``Tree``, not pruned
    most : the largest ``ccp_alpha`` that it will be pruned by
    """

    def __init__(self, tree: Any, max_alpha: float) -> None:
        self.tree, self.max_alpha = tree, max_alpha
        self._by_n_leaves: dict[Any, Growth] = {}
        self._left_children, self._right_children = (
            tree.children_left.tolist(),
            tree.children_right.tolist(),
        )

    def cut(self, grown: Any, estimator: Any) -> Any:
        """The estimator of this tree as it would be with another's limits."""
        model = copy.copy(grown)
        model.max_leaf_nodes, model.ccp_alpha = leaves, alpha = (
            estimator.max_leaf_nodes,
            estimator.ccp_alpha,
        )
        if leaves not in self._by_n_leaves:
            self._by_n_leaves[leaves] = self._first_leaves(leaves)
        model.tree_ = self._by_n_leaves[leaves]._prune(alpha)
        return model

    def _first_leaves(self, n_leaves: int | None) -> Growth:
        """The first leaves of a tree that was grown best-first, or all that there are."""
        if n_leaves is None or n_leaves >= self.tree.n_leaves:
            return self
        kept_nodes = np.arange(2 * n_leaves - 1)  # each split adds a leaf and two nodes
        return Growth(
            self._subtree(kept_nodes, self.tree.children_left[kept_nodes] >= len(kept_nodes)),
            self.max_alpha,
        )

    def _prune(self, alpha: float) -> Any:
        """The tree of the least cost, its impurity and ``alpha`` for each leaf.

        The weakest link is cut, again and again (Breiman et al., Classification and Regression
        Trees, 1984, 3.3).
        """
        if alpha == 0.0:
            return self.tree
        alphas, leaf_ranks, cut_off_ranks = self._weakest_links
        n_cut = int(np.argmax(alphas > alpha))  # the last one is infinite
        kept_nodes = self._depth_first[cut_off_ranks[self._depth_first] >= n_cut]
        return self._subtree(kept_nodes, leaf_ranks[kept_nodes] < n_cut)

    def _subtree(self, kept_nodes: np.ndarray, is_cut: np.ndarray) -> Any:
        """The tree of some nodes.

        Parameters
        ----------
        kept : their numbers, in the order in which they are numbered anew
        is_cut : bool array, which of them lose their children
        """
        make, arguments, state = self.tree.__reduce__()
        nodes, numbers = state["nodes"][kept_nodes], np.full(self.tree.node_count, NO_CHILD)
        numbers[kept_nodes] = np.arange(len(kept_nodes))
        is_leaf = is_cut | (nodes["left_child"] == NO_CHILD)
        for side in ("left_child", "right_child"):
            nodes[side] = np.where(is_leaf, NO_CHILD, numbers[nodes[side]])
        nodes["feature"][is_leaf] = nodes["threshold"][is_leaf] = NO_SPLIT
        part = make(*arguments)
        part.__setstate__(
            {
                "max_depth": int(self._depths[kept_nodes].max()),
                "node_count": len(kept_nodes),
                "nodes": nodes,
                "values": state["values"][kept_nodes],
            }
        )
        return part

    @cached_property
    def _parents(self) -> list[int]:
        """The number of each node's parent, which is smaller than its own; -1 of the first."""
        parents = [NO_CHILD] * len(self._left_children)
        for node, (left_child, right_child) in enumerate(
            zip(self._left_children, self._right_children, strict=True)
        ):
            if left_child != NO_CHILD:
                parents[left_child] = parents[right_child] = node
        return parents

    @cached_property
    def _depths(self) -> np.ndarray:
        depths = [0] * len(self._parents)
        for node, parent in enumerate(self._parents[1:], 1):
            depths[node] = depths[parent] + 1
        return np.array(depths)

    @cached_property
    def _depth_first(self) -> np.ndarray:
        """The nodes in the order of pruned trees, a node before its children, left before right."""
        return np.array(list(self._descendants(0)))

    def _descendants(self, node: int) -> Iterator[int]:
        """Yield a node and all below it, depth-first."""
        stack = [node]
        while stack:
            node = stack.pop()
            yield node
            if self._left_children[node] != NO_CHILD:
                stack += self._right_children[node], self._left_children[node]

    @cached_property
    def _weakest_links(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The order in which nodes lose their children as ``ccp_alpha`` rises.

        By scikit-learn's arithmetic, in its order, but with a heap: that looks at all nodes for
        each link.

        Returns
        -------
        alphas : from which on each link is cut, in their order, up to ``most``; then infinity
        closed, gone : for each node the place of the link with which it becomes a leaf, and of
            that with which it is cut off; infinity if never
        """
        weights = self.tree.weighted_n_node_samples
        costs = (weights * self.tree.impurity / weights[0]).tolist()
        branches, n_leaves = [0.0] * len(costs), [0] * len(costs)
        inner = [node for node, child in enumerate(self._left_children) if child != NO_CHILD]
        for leaf in sorted({*range(len(costs))} - {*inner}):
            branches[leaf] = costs[leaf]
            for node in self._ancestors(leaf):
                branches[node] += costs[leaf]
                n_leaves[node] += 1

        def strength(node: int) -> float:
            return (costs[node] - branches[node]) / (n_leaves[node] - 1)

        strengths = {node: strength(node) for node in inner}
        heap = [(alpha, node) for node, alpha in strengths.items()]
        heapq.heapify(heap)
        alphas: list[float] = []
        leaf_ranks, cut_off_ranks = [math.inf] * len(costs), [math.inf] * len(costs)
        while heap:
            alpha, link = heapq.heappop(heap)
            if strengths.get(link) != alpha:  # it is cut, or another since
                continue
            if alpha > self.max_alpha:
                break
            for node in self._descendants(link):
                strengths.pop(node, None)
                cut_off_ranks[node] = min(cut_off_ranks[node], len(alphas))
            leaf_ranks[link], cut_off_ranks[link] = len(alphas), math.inf
            alphas.append(alpha)
            rise, n_fewer = costs[link] - branches[link], n_leaves[link] - 1
            for node in self._ancestors(link):
                branches[node] += rise
                n_leaves[node] -= n_fewer
                strengths[node] = strength(node)
                heapq.heappush(heap, (strengths[node], node))
        return np.array([*alphas, math.inf]), np.array(leaf_ranks), np.array(cut_off_ranks)

    def _ancestors(self, node: int) -> Iterator[int]:
        """Yield all nodes above one, the nearest first."""
        while (node := self._parents[node]) != NO_CHILD:
            yield node


SHARED_FITS = (Trees(),)
