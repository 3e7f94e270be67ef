"""Decision trees: smaller ones are cut or pruned from one large tree.

With ``max_leaf_nodes`` a tree grows best-first: at each step the leaf whose split gains most is
split. So a tree with fewer leaves is the beginning of one with more, with the same node numbers and
the same random draws. Cost-complexity pruning, ``ccp_alpha``, follows the growth and draws nothing.

Any other tree grows depth-first, and draws the features of a node after those of all nodes to its
left. With another depth, or other limits for its nodes, it draws other features. Such trees share
nothing.
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
NO_CHILD, NO_SPLIT = -1, -2  # scikit-learn's marks of a leaf: no children; no feature, threshold


class Trees(SharedEstimators):
    """Decision trees of several ``max_leaf_nodes`` and ``ccp_alpha``, cut from one."""

    takes_weights = True
    name = "one tree, cut and pruned"
    types = (DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor)
    shared = (LEAVES, ALPHA)
    by_chance = True

    def group_key(self, estimator: Any) -> Hashable | None:
        """See ``SharedFit.group_key``; best-first and depth-first trees do not share a group."""
        key = super().group_key(estimator)
        return None if key is None else (key, estimator.max_leaf_nodes is None)

    def accepts(self, estimator: Any) -> bool:
        """See ``SharedFit.accepts``; a splitter or criterion object may keep state."""
        is_usual = isinstance(estimator.splitter, str) and isinstance(estimator.criterion, str)
        return is_usual and can_be_cut(estimator)

    def fit(self, estimators: Sequence[Any], X: Any, y: Any, **weights: Any) -> list[Any]:
        """See ``SharedEstimators.fit``; the largest tree is grown, the others are cut from it."""
        if len(estimators) == 1:  # scikit-learn's pruning is faster for a single alpha
            return [estimators[0].fit(X, y, **weights)]
        grown = uncut_estimator(estimators).fit(X, y, **weights)
        growth, fitted = Growth(grown.tree_, largest_alpha(estimators)), []
        for estimator in estimators:
            model = growth.cut(grown, estimator)
            model.random_state = copy.deepcopy(grown.random_state)
            fitted.append(model)
        return fitted

    def predict(self, fitted: Sequence[Any], method: str, X: Any) -> list[np.ndarray] | None:
        """Predict with every tree, after one check of the rows for all."""
        if method == "predict_log_proba":
            return None
        X = fitted[0]._validate_X_predict(X, check_input=True)
        return [getattr(model, method)(X, check_input=False) for model in fitted]


def can_be_cut(estimator: Any) -> bool:
    """Whether a tree, or a forest, has limits that scikit-learn would accept."""
    leaves, alpha = estimator.max_leaf_nodes, estimator.ccp_alpha
    return (leaves is None or (isinstance(leaves, Integral) and int(leaves) > 1)) and (
        isinstance(alpha, Real) and 0 <= float(alpha) < math.inf
    )


def uncut_estimator(estimators: Sequence[Any]) -> Any:
    """An unfitted tree, or forest, from which trees for all limits can be cut; see ``Growth``."""
    largest = max(estimators, key=lambda estimator: estimator.max_leaf_nodes or 0)
    return clone(largest).set_params(**{ALPHA: 0.0})


def largest_alpha(estimators: Sequence[Any]) -> float:
    """The largest ``ccp_alpha`` of trees or forests."""
    return max(float(estimator.ccp_alpha) for estimator in estimators)


class Growth:
    """The smaller trees that can be cut from a grown tree.

    Parameters
    ----------
    tree : sklearn.tree._tree.Tree
        Not pruned.
    max_alpha : float
        The largest ``ccp_alpha`` for which it will be pruned.
    """

    def __init__(self, tree: Any, max_alpha: float) -> None:
        self.tree, self.max_alpha = tree, max_alpha
        self._by_n_leaves: dict[Any, Growth] = {}
        self._left_children, self._right_children = (
            tree.children_left.tolist(),
            tree.children_right.tolist(),
        )

    def cut(self, grown: Any, estimator: Any) -> Any:
        """A copy of the fitted estimator with the limits, and so the tree, of another.

        Parameters
        ----------
        grown : fitted tree
            The estimator of this tree.
        estimator : unfitted tree or forest
            Has the limits, ``max_leaf_nodes`` and ``ccp_alpha``.
        """
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
        """The tree as it was when it had this many leaves; the whole tree for None or too many."""
        if n_leaves is None or n_leaves >= self.tree.n_leaves:
            return self
        kept_nodes = np.arange(2 * n_leaves - 1)  # each split adds a leaf and two nodes
        return Growth(
            self._subtree(kept_nodes, self.tree.children_left[kept_nodes] >= len(kept_nodes)),
            self.max_alpha,
        )

    def _prune(self, alpha: float) -> Any:
        """The subtree of least cost: its impurity plus ``alpha`` for each leaf.

        It is found by cutting the weakest link while its strength is at most ``alpha``.

        References
        ----------
        Breiman, Friedman, Olshen and Stone, Classification and Regression Trees, Wadsworth, 1984,
        section 3.3.
        """
        if alpha == 0.0:
            return self.tree
        alphas, leaf_ranks, cut_off_ranks = self._weakest_links
        n_cut = int(np.argmax(alphas > alpha))  # the last one is infinite
        kept_nodes = self._depth_first[cut_off_ranks[self._depth_first] >= n_cut]
        return self._subtree(kept_nodes, leaf_ranks[kept_nodes] < n_cut)

    def _subtree(self, kept_nodes: np.ndarray, is_cut: np.ndarray) -> Any:
        """A scikit-learn ``Tree`` of some of the nodes.

        Parameters
        ----------
        kept_nodes : int array of shape (n_kept,)
            Numbers of the nodes, in the order of their new numbers.
        is_cut : bool array of shape (n_kept,)
            Which of them lose their children and become leaves.
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
        """The parent of each node (a smaller number than the node's own); -1 for the root."""
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
        """All nodes in the order of pruned trees: a node before its children, left before right."""
        return np.array(list(self._descendants(0)))

    def _descendants(self, node: int) -> Iterator[int]:
        """A node and all nodes below it, depth-first."""
        stack = [node]
        while stack:
            node = stack.pop()
            yield node
            if self._left_children[node] != NO_CHILD:
                stack += self._right_children[node], self._left_children[node]

    @cached_property
    def _weakest_links(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The order in which nodes lose their children as ``ccp_alpha`` rises.

        The arithmetic and its order are scikit-learn's, so that ties and rounding agree. But a heap
        holds the links, where scikit-learn looks at all nodes to find each link.

        Returns
        -------
        alphas : float array of shape (n_links + 1,)
            The alpha from which each link is cut, in order, up to ``max_alpha``; then infinity.
        leaf_ranks, cut_off_ranks : float arrays of shape (n_nodes,)
            For each node, the rank of the link by which it becomes a leaf, and of that by which it
            is cut off; infinity if never.
        """
        weights = self.tree.weighted_n_node_samples
        costs = (weights * self.tree.impurity / weights[0]).tolist()
        # Cost and number of the leaves below each node, summed leaf by leaf in scikit-learn's
        # order, as rounding depends on it.
        branches, n_leaves = [0.0] * len(costs), [0] * len(costs)
        inner = [node for node, child in enumerate(self._left_children) if child != NO_CHILD]
        for leaf in sorted({*range(len(costs))} - {*inner}):
            branches[leaf] = costs[leaf]
            for node in self._ancestors(leaf):
                branches[node] += costs[leaf]
                n_leaves[node] += 1

        def strength(node: int) -> float:
            """The alpha from which the node is better off as a leaf: cost per leaf saved."""
            return (costs[node] - branches[node]) / (n_leaves[node] - 1)

        strengths = {node: strength(node) for node in inner}
        heap = [(alpha, node) for node, alpha in strengths.items()]
        heapq.heapify(heap)
        alphas: list[float] = []
        leaf_ranks, cut_off_ranks = [math.inf] * len(costs), [math.inf] * len(costs)
        while heap:
            alpha, link = heapq.heappop(heap)
            if strengths.get(link) != alpha:  # cut off since it was pushed, or its strength changed
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
        """All nodes above a node, the nearest first."""
        while (node := self._parents[node]) != NO_CHILD:
            yield node


SHARED_FITS = (Trees(),)
