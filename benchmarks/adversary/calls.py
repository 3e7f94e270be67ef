"""Calls from Python: the same arrays to scikit-learn's or networkx's own.

``python -m benchmarks.adversary.calls SEED [NUMBER ...]`` tries them in one process and prints a
line of JSON for each; what the peer refuses may be refused.
"""

from __future__ import annotations

import faulthandler
import json
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, GroupKFold, PredefinedSplit, ShuffleSplit
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC, SVR

from pipelines import BaggedNets, GridSearch, PathSVC, PathSVR, SVMGridSearch, compute_pagerank
from pipelines.errors import InputError

GRID = {"C": [0.3, 30.0], "gamma": [0.003, 0.1]}
SECONDS = 90
Array = Any


class Refused(Exception):
    """Ours refuses what its peer answers."""


class Differs(Exception):
    """Ours answers otherwise than its peer."""


def data(rng: Any, n: int = 150, classes: int = 3, d: int = 6) -> tuple[Array, Array]:
    y = rng.permutation(np.arange(n) % classes)
    return rng.normal(size=(n, d)) + np.eye(classes, d)[y] * 1.6, y


def numbers(rng: Any, n: int = 120) -> tuple[Array, Array]:
    X = rng.normal(size=(n, 4))
    return X, np.sin(X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=n)


Maker = Callable[[Array, Array], tuple[Any, Any]]


def params(name: str, value: Any) -> dict[str, Any]:
    return {name: value}


def both(ours: Callable[[], Any], peer: Callable[[], Any]) -> tuple[Any, Any] | None:
    """The answers of both; None where the peer refuses and ours does, too."""
    try:
        theirs = peer()
    except Exception as error:
        try:
            ours()
        except (ValueError, TypeError, InputError):
            return None
        if peer_limit(str(error)):
            return None
        raise Differs(f"answers what its peer refuses: {str(error)[:150]}") from None
    try:
        return ours(), theirs
    except (ValueError, TypeError) as error:
        raise Refused(str(error).splitlines()[0][:300]) from None


# What LIBSVM or scipy cannot, though the input is sound.
LIMITS = (
    "has no attribute 'var'",
    "32-bit integer indices",
    "not finite",
    "out of range",
    "'cache_size'",
    "'shrinking'",
)


def peer_limit(message: str) -> bool:
    return any(word in message for word in LIMITS)


def near(ours: Any, theirs: Any, atol: float, what: str, rtol: float = 0.0) -> None:
    a, b = np.asarray(ours), np.asarray(theirs)
    if a.shape != b.shape:
        raise Differs(f"{what} of shape {a.shape}, not {b.shape}")
    if a.dtype.kind in "fciub" and b.dtype.kind in "fciub":
        close = np.isclose(a, b, atol=atol, rtol=rtol, equal_nan=True)
    else:
        close = a == b
    if not close.all():
        k = np.flatnonzero(~close.ravel())[:3]
        raise Differs(
            f"{what} {a.ravel()[k]}, not {b.ravel()[k]} ({(~close).sum()} of {close.size})"
        )


def svc(
    make: Maker,
    tol: float = 1e-5,
    weights: Any = None,
    slack: float = 0.02,
    peer: Maker | None = None,
    **params: Any,
) -> Any:
    """``PathSVC`` against ``SVC``: predictions but of a row in fifty, decision values.

    peer : the rows that ``SVC`` gets, where its own rounding would spoil those of ``make``
    """

    def run(rng: Any) -> None:
        plain_X, plain_y = data(rng)
        X2, y2 = (peer or make)(plain_X.copy(), plain_y.copy())
        X, y = make(plain_X, plain_y)
        w = weights(rng, len(y)) if weights else None
        kept = {"C": 3.0, **params}

        def answer(model: Any, X: Any, y: Any) -> Any:
            model.fit(X, y, sample_weight=w)
            return model.classes_, model.predict(X), model.decision_function(X)

        answers = both(
            lambda: answer(PathSVC(tol=tol, **kept), X, y),
            lambda: answer(SVC(tol=tol, **kept), X2, y2),
        )
        if answers is None:
            return
        ours, theirs = answers
        near(ours[0], theirs[0], 0, "classes")
        if (share := (ours[1] != theirs[1]).mean()) > slack:
            raise Differs(f"{share:.0%} of predictions differ from SVC's")
        if slack < 1:
            near(ours[2], theirs[2], 2e-2, "decision values", 1e-2)

    return run


def svr(
    make: Maker, slack: float = 1e-2, weights: Any = None, peer: Maker | None = None, **params: Any
) -> Any:
    def run(rng: Any) -> None:
        plain_X, plain_y = numbers(rng)
        X2, y2 = (peer or make)(plain_X.copy(), plain_y.copy())
        X, y = make(plain_X, plain_y)
        w = weights(rng, len(y)) if weights else None
        kind = np.asarray(y).dtype.kind
        spread = 1.0 if kind in "UcO" else float(np.nanstd(np.asarray(y, float))) or 1.0
        kept = {"tol": 1e-5 * spread, **params}
        answers = both(
            lambda: PathSVR(**kept).fit(X, y, sample_weight=w).predict(X),
            lambda: SVR(**kept).fit(X2, y2, sample_weight=w).predict(X2),
        )
        if answers is not None:
            near(answers[0], answers[1], slack * spread, "predictions")

    return run


def search(
    make: Maker,
    grid: Any = GRID,
    rows: int = 2,
    fit: Any = None,
    tol: float = 1e-4,
    peer: Maker | None = None,
    **keywords: Any,
) -> Any:
    """``SVMGridSearch`` against ``GridSearchCV(SVC())``: scores within two rows of a fold."""

    def run(rng: Any) -> None:
        plain_X, plain_y = data(rng)
        X2, y2 = (peer or make)(plain_X.copy(), plain_y.copy())
        X, y = make(plain_X, plain_y)
        fit_options = fit(rng, len(y)) if fit else {}
        kept = {"cv": 3, **keywords}
        answers = both(
            lambda: SVMGridSearch(param_grid=grid, tol=tol, **kept).fit(X, y, **fit_options),
            lambda: GridSearchCV(SVC(tol=tol), grid, **kept).fit(X2, y2, **fit_options),
        )
        if answers is not None:
            results_agree(*answers, rows / max(len(y) // 3, 1))

    return run


def results_agree(ours: Any, theirs: Any, atol: float) -> None:
    names = [name for name in theirs.cv_results_ if "time" not in name and name[:4] != "rank"]
    if sorted(set(names) - set(ours.cv_results_)):
        raise Differs(f"cv_results_ lacks {sorted(set(names) - set(ours.cv_results_))}")
    for name in names:
        if "score" in name:
            near(ours.cv_results_[name], theirs.cv_results_[name], atol, name)
    if ours.cv_results_["params"] != theirs.cv_results_["params"]:
        raise Differs("params are in another order")


def plain(grid: Any, estimator: Any, make: Maker = lambda X, y: (X, y), **keywords: Any) -> Any:
    """``GridSearch`` against ``GridSearchCV``, to the last digits."""

    def run(rng: Any) -> None:
        X, y = make(*data(rng))
        kept = {"cv": 3, **keywords}
        with_ours = lambda: GridSearch(estimator(), grid, **kept).fit(X, y)  # noqa: E731
        answers = both(with_ours, lambda: GridSearchCV(estimator(), grid, **kept).fit(X, y))
        if answers is not None:
            results_agree(*answers, 1e-7)
            if kept.get("refit", True):
                near(answers[0].predict(X), answers[1].predict(X), 0, "predictions")

    return run


def ranks(
    make: Callable[[Array, Array, Array], Any],
    meant: Any = None,
    refusal: bool = False,
    **keywords: Any,
) -> Any:
    """``compute_pagerank`` against networkx; ``meant`` gives the edges that networkx gets."""

    def run(rng: Any) -> None:
        a, b, w = rng.integers(0, 30, 120), rng.integers(0, 34, 120), rng.integers(1, 9, 120)
        try:
            ours = compute_pagerank(make(a, b, w), tol=1e-13, **keywords).frame().iloc[:, 0]
        except InputError as error:
            if refusal:
                return
            raise Refused(str(error)[:300]) from None
        if meant is None:
            if not abs(ours.sum() - 1) < 1e-6:
                raise Differs(f"ranks add up to {ours.sum()}")
            return
        graph: Any = nx.DiGraph()
        for i, j, v in meant(a, b, w):
            graph.add_edge(i, j, weight=graph.get_edge_data(i, j, {"weight": 0})["weight"] + v)
        alpha = keywords.get("alpha", 0.85)
        theirs = nx.pagerank(graph, alpha=alpha, tol=1e-15, max_iter=5000)
        if len(ours) < len(theirs):
            raise Differs(f"{len(ours)} nodes, not {len(theirs)}")
        if len(ours) == len(theirs):
            near([ours[node] for node in theirs], list(theirs.values()), 1e-8, "ranks")

    return run


def nets(make: Maker, n: int = 90, **keywords: Any) -> Any:
    """``BaggedNets`` on odd arrays: its predictions are those of the plain ones."""

    def run(rng: Any) -> None:
        X, y = data(rng, n)
        kept: dict[str, Any] = {"n_estimators": 2, "max_epochs": 15, "random_state": 0, **keywords}
        theirs = BaggedNets(**kept).fit(X, y)
        odd, labels = make(X, y)
        try:
            ours = BaggedNets(**kept).fit(odd, labels)
        except (ValueError, TypeError) as error:
            raise Refused(str(error).splitlines()[0][:300]) from None
        codes = np.searchsorted(ours.classes_, ours.predict(odd))
        if (share := (codes != theirs.predict(X)).mean()) > 0.03:
            raise Differs(f"{share:.0%} of predictions differ from those of the plain arrays")

    return run


def _labels(*names: Any, dtype: Any = None) -> Maker:
    """Classes by other names, sorted alike; object arrays where numpy has no type for them."""

    def change(X: Array, y: Array) -> tuple[Any, Any]:
        if dtype is object:
            out = np.empty(len(y), object)
            out[:] = [names[k] for k in y]
            return X, out
        return X, np.array(names, dtype)[y]

    return change


def _readonly(X: Array, y: Array) -> tuple[Any, Any]:
    X.flags.writeable = y.flags.writeable = False
    return X, y


def _unsorted(X: Array, y: Array) -> tuple[Any, Any]:
    """A sparse matrix with unsorted indices, duplicates and stored zeros."""
    i, j = np.nonzero(np.ones_like(X))
    half = X.ravel() / 2
    order = np.random.default_rng(0).permutation(2 * len(half))
    rows, cols = np.tile(i, 2)[order], np.tile(j, 2)[order]
    matrix = sp.coo_matrix((np.tile(half, 2)[order], (rows, cols)), shape=X.shape)
    return matrix, y


def _strided(X: Array, y: Array) -> tuple[Any, Any]:
    wide = np.zeros((2 * len(X), 2 * X.shape[1]))
    wide[::2, ::2] = X
    return wide[::2, ::2], np.repeat(y, 3)[::3]


def _csr64(X: Array, y: Array) -> tuple[Any, Any]:
    matrix = sp.csr_matrix(X)
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    return matrix, y


def same(X: Array, y: Array) -> tuple[Any, Any]:
    return X, y


def _few(counts: tuple[int, ...]) -> Maker:
    def change(X: Array, y: Array) -> tuple[Any, Any]:
        keep = np.concatenate([np.flatnonzero(y == k)[:n] for k, n in enumerate(counts)])
        return X[np.sort(keep)], y[np.sort(keep)]

    return change


def _weights(kind: str) -> Callable[[Any, int], Array]:
    def make(rng: Any, n: int) -> Array:
        w = rng.uniform(0.2, 3, n)
        w[rng.integers(0, n, n // 3)] = {"zero": 0.0, "huge": 1e6, "tiny": 1e-9}.get(kind, 1.0)
        return {
            "ints": w.astype(int) + 1,
            "list": list(w),
            "negative": w - 1,
            "nan": w * np.nan,
            "series": pd.Series(w, index=range(n, 0, -1)),
            "short": w[1:],
        }.get(kind, w)

    return make


def _gram(X: Array, y: Array) -> tuple[Any, Any]:
    return np.exp(-0.2 * ((X[:, None] - X[None]) ** 2).sum(2)), y


def _groups(rng: Any, n: int) -> dict[str, Any]:
    return {"groups": [f"p{k}" for k in rng.integers(0, 9, n)]}


def edges(a: Array, b: Array, w: Array) -> Any:
    return [(int(i), int(j), float(v)) for i, j, v in zip(a, b, w, strict=True)]


def ones(a: Array, b: Array, w: Array) -> Any:
    return [(i, j, 1.0) for i, j, _ in edges(a, b, w)]


def _sparse(kind: Any) -> Any:
    return lambda a, b, w: kind((w.astype(float), (a, b)), shape=(34, 34))


def _frame(a: Array, b: Array, w: Array) -> pd.DataFrame:
    return pd.DataFrame({"from": a, "to": b, "w": w})


KERNELS: list[dict[str, Any]] = [
    {"kernel": "poly", "degree": 0},
    {"kernel": "poly", "degree": 7, "gamma": 0.5, "coef0": 1.0},
    {"kernel": "linear", "gamma": "auto"},
    {"kernel": "sigmoid", "gamma": 1e-3},
]
CALLS: dict[str, Any] = {
    "SVC, Fortran order": svc(lambda X, y: (np.asfortranarray(X), y)),
    "SVC, read-only": svc(_readonly),
    "SVC, strided": svc(_strided),
    "SVC, negative strides": svc(lambda X, y: (X[::-1, ::-1], y[::-1])),
    "SVC, single precision": svc(lambda X, y: (X.astype(np.float32), y.astype(np.int8))),
    "SVC, half precision": svc(lambda X, y: (X.astype(np.float16), y)),
    "SVC, big end": svc(lambda X, y: (X.astype(">f8"), y.astype(">i4"))),
    "SVC, integers": svc(lambda X, y: ((X * 9).astype(np.int16), y)),
    "SVC, unsigned 8 bits": svc(lambda X, y: (np.clip(X * 40 + 100, 0, 255).astype(np.uint8), y)),
    "SVC, truth values": svc(lambda X, y: (X > 0, y)),
    "SVC, objects": svc(lambda X, y: (X.astype(object), y)),
    "SVC, numbers as text": svc(lambda X, y: (X.round(3).astype(str), y)),
    "SVC, complex": svc(lambda X, y: (X + 0j, y)),
    "SVC, lists": svc(lambda X, y: (X.tolist(), y.tolist())),
    "SVC, tuple of rows": svc(lambda X, y: (tuple(map(tuple, X)), tuple(y))),
    "SVC, masked array": svc(lambda X, y: (np.ma.masked_less(X, -2), y)),
    "SVC, matrix": svc(lambda X, y: (np.asmatrix(X), y)),
    "SVC, frame of another index": svc(
        lambda X, y: (pd.DataFrame(X, index=range(999, 849, -1)), pd.Series(y))
    ),
    "SVC, frame of nullable": svc(
        lambda X, y: (pd.DataFrame(X).convert_dtypes(), pd.Series(y, dtype="Int64"))
    ),
    "SVC, frame of mixed names": svc(lambda X, y: (pd.DataFrame(X).rename(columns={0: "a"}), y)),
    "SVC, frame of sparse columns": svc(
        lambda X, y: (pd.DataFrame(X).astype(pd.SparseDtype(float, 0.0)), y)
    ),
    "SVC, y of a column": svc(lambda X, y: (X, y[:, None])),
    "SVC, y of two columns": svc(lambda X, y: (X, np.c_[y, y])),
    "SVC, y of fractions": svc(lambda X, y: (X, y + 0.5)),
    "SVC, y with NaN": svc(lambda X, y: (X, np.where(y == 2, np.nan, y))),
    "SVC, y a series of categories": svc(
        lambda X, y: (X, pd.Series([("x", "z", "a")[k] for k in y], dtype="category"))
    ),
    "SVC, labels of truth": svc(lambda X, y: (X, y > 0)),
    "SVC, labels of text": svc(_labels("a", "b\0", "c")),
    "SVC, labels of bytes": svc(_labels(b"a", b"b", b"c")),
    "SVC, labels beyond doubles": svc(_labels(2**53, 2**53 + 1, 2**53 + 2)),
    "SVC, labels of unsigned": svc(_labels(2**63, 2**63 + 1, 2**63 + 2, dtype=np.uint64)),
    "SVC, labels of floats": svc(_labels(-1e300, 1e-300, 5e-324)),
    "SVC, labels of mixed types": svc(_labels(1, "a", 2.0, dtype=object)),
    "SVC, labels of objects": svc(_labels("ä", "ö", "ü", dtype=object)),
    "SVC, labels with None": svc(_labels(None, "a", "b", dtype=object)),
    "SVC, labels of tuples": svc(_labels((1, 2), (1, 3), (2, 1), dtype=object)),
    "SVC, labels of dates": svc(_labels("2020-01-01", "2020-01-02", "2020-01-03", dtype="M8[D]")),
    "SVC, labels True and 1": svc(_labels(True, 0, 2, dtype=object)),
    "SVC, shifted by 1e8": svc(lambda X, y: (X + 1e8, y), peer=same, gamma=0.1),
    "SVC, shifted by 1e8, scale": svc(lambda X, y: (X + 1e8, y), peer=same),
    "SVC, a column shifted by 1e8": svc(
        lambda X, y: (X + np.eye(6)[0] * 1e8, y), peer=same, gamma=0.1
    ),
    "SVC, shifted, linear": svc(lambda X, y: (X + 1e4, y), peer=same, kernel="linear"),
    "SVC, scaled by 1e-20": svc(lambda X, y: (X * 1e-20, y), peer=same),
    "SVC, scaled by 1e-160": svc(lambda X, y: (X * 1e-160, y), peer=same),
    "SVC, scaled by 1e30": svc(lambda X, y: (X * 1e30, y)),
    "SVC, scaled by 1e160": svc(lambda X, y: (X * 1e160, y)),
    "SVC, scaled, polynomial": svc(lambda X, y: (X * 1e-3, y), kernel="poly", coef0=1.0),
    "SVC, all rows equal": svc(lambda X, y: (X * 0 + 1, y), slack=1.0),
    "SVC, each row twice": svc(lambda X, y: (np.repeat(X, 2, 0), np.repeat(y, 2))),
    "SVC, rows of two classes each": svc(
        lambda X, y: (np.tile(X, (2, 1)), np.r_[y, (y + 1) % 3]), slack=0.1
    ),
    "SVC, constant columns": svc(
        lambda X, y: (np.c_[X, np.full((len(X), 3), 1e4)], y), peer=same, gamma=0.1
    ),
    "SVC, one feature": svc(lambda X, y: (X[:, :1], y)),
    "SVC, no feature": svc(lambda X, y: (X[:, :0], y)),
    "SVC, infinite": svc(lambda X, y: (np.where(X > 3, np.inf, X), y)),
    "SVC, beyond singles": svc(lambda X, y: (X * 1e39, y), gamma=1e-78),
    "SVC, one class": svc(lambda X, y: (X, y * 0)),
    "SVC, a class of one row": svc(_few((50, 40, 1))),
    "SVC, two rows": svc(_few((1, 1, 0))),
    "SVC, three dimensions": svc(lambda X, y: (X[:, :, None], y)),
    "SVC, CSC": svc(lambda X, y: (sp.csc_matrix(X), y)),
    "SVC, sparse array": svc(lambda X, y: (sp.csr_array(X * (X > 0)), y)),
    "SVC, unsorted sparse": svc(_unsorted),
    "SVC, sparse of 64 bits": svc(_csr64),
    "SVC, sparse of singles": svc(
        lambda X, y: (sp.csr_matrix((X * (X > 0)).astype(np.float32)), y)
    ),
    "SVC, sparse with NaN": svc(lambda X, y: (sp.csr_matrix(np.where(X > 2, np.nan, X)), y)),
    "SVC, DIA": svc(lambda X, y: (sp.dia_matrix(X), y)),
    **{
        f"SVC, weights: {kind}": svc(same, weights=_weights(kind))
        for kind in ("zero", "huge", "tiny", "ints", "list", "series", "negative", "nan", "short")
    },
    "SVC, weights drop a class": svc(
        same, weights=lambda rng, n: np.r_[np.ones(n - 30), np.zeros(30)]
    ),
    "SVC, weight of one": svc(same, weights=lambda rng, n: 2.0),
    "SVC, class weights of text": svc(_labels("a", "b", "c"), class_weight={"a": 2, "b": 0.5}),
    "SVC, class weights of no class": svc(_labels("a", "b", "c"), class_weight={"a": 2, "zz": 0.5}),
    "SVC, class weight 0": svc(same, class_weight={0: 0.0}),
    "SVC, class weight negative": svc(same, class_weight={0: -1.0}),
    "SVC, class weights of floats": svc(same, class_weight={0.0: 5.0, 1: 1}),
    "SVC, balanced and weights": svc(same, weights=_weights("ints"), class_weight="balanced"),
    "SVC, precomputed": svc(_gram, kernel="precomputed"),
    "SVC, precomputed of singles": svc(
        lambda X, y: (_gram(X, y)[0].astype(np.float32), y), kernel="precomputed"
    ),
    "SVC, precomputed, not square": svc(
        lambda X, y: (_gram(X, y)[0][:, 1:], y), kernel="precomputed"
    ),
    "SVC, precomputed sparse": svc(
        lambda X, y: (sp.csr_matrix(_gram(X, y)[0]), y), kernel="precomputed"
    ),
    "SVC, a kernel of transposes": svc(same, kernel=lambda a, b: (b @ a.T).T),
    "SVC, a kernel of wrong shape": svc(same, kernel=lambda a, b: (a @ b.T)[:-1]),
    "SVC, a kernel of NaN": svc(same, kernel=lambda a, b: a @ b.T * np.nan),
    **{
        f"SVC, {name}={value!r}": svc(same, **params(name, value))
        for name, value in [
            ("C", 0),
            ("C", np.inf),
            ("C", "1"),
            ("C", True),
            ("C", np.float32(2)),
            ("C", 1e-12),
            ("C", 1e9),
            ("gamma", 0.0),
            ("gamma", -1.0),
            ("gamma", np.nan),
            ("gamma", "Scale"),
            ("gamma", 1e12),
            ("degree", -1),
            ("degree", 2.5),
            ("coef0", np.nan),
            ("kernel", "RBF"),
            ("max_iter", 0),
            ("max_iter", -2),
            ("break_ties", True),
            ("decision_function_shape", "ovo"),
            ("decision_function_shape", "oops"),
            ("class_weight", "Balanced"),
            ("cache_size", -1),
            ("shrinking", "no"),
        ]
    },
    **{f"SVC, {kernel}": svc(same, slack=0.04, **kernel) for kernel in KERNELS},
    "SVR, shifted target": svr(lambda X, y: (X, y + 1e8)),
    "SVR, target scaled by 1e-8": svr(lambda X, y: (X, y * 1e-8), epsilon=1e-10, C=1e-6),
    "SVR, target scaled by 1e8": svr(lambda X, y: (X, y * 1e8), epsilon=1e6, C=1e8),
    "SVR, constant target": svr(lambda X, y: (X, y * 0 + 3)),
    "SVR, wide tube": svr(same, epsilon=100.0),
    "SVR, epsilon 0": svr(same, epsilon=0.0),
    "SVR, epsilon negative": svr(same, epsilon=-0.1),
    "SVR, integers": svr(lambda X, y: (X, (y * 9).astype(np.int8))),
    "SVR, unsigned": svr(lambda X, y: (X, (y * 9 + 90).astype(np.uint8))),
    "SVR, truth values": svr(lambda X, y: (X, y > 0)),
    "SVR, objects": svr(lambda X, y: (X, y.astype(object))),
    "SVR, text": svr(lambda X, y: (X, np.array(["a", "b"])[(y > 0) * 1])),
    "SVR, complex": svr(lambda X, y: (X, y + 1j)),
    "SVR, infinite": svr(lambda X, y: (X, np.where(y > 1, np.inf, y))),
    "SVR, y of a column": svr(lambda X, y: (X, y[:, None])),
    "SVR, weights zero": svr(same, weights=_weights("zero")),
    "SVR, weights huge": svr(same, weights=_weights("huge"), slack=0.05),
    "SVR, weights negative": svr(same, weights=_weights("negative")),
    "SVR, all rows equal": svr(lambda X, y: (X * 0, y)),
    "SVR, shifted rows": svr(lambda X, y: (X + 1e8, y), peer=same, gamma=0.3),
    "SVR, one row": svr(lambda X, y: (X[:1], y[:1])),
    "search, frame": search(lambda X, y: (pd.DataFrame(X), pd.Series(y, index=range(9, 159)))),
    "search, shifted by 1e8": search(lambda X, y: (X + 1e8, y), peer=same),
    "search, single precision": search(lambda X, y: (X.astype(np.float32), y)),
    "search, scaled": search(lambda X, y: (X * 1e20, y), {"C": [1, 10], "gamma": ["scale"]}),
    "search, sparse": search(lambda X, y: (sp.csc_matrix(X), y)),
    "search, labels of text": search(_labels("b", "a", "c"), scoring="f1_macro"),
    "search, labels beyond doubles": search(_labels(2**53, 2**53 + 1, 2**53 + 2)),
    "search, labels mixed": search(_labels(1, "a", 2.0, dtype=object)),
    "search, rare class": search(_few((50, 40, 2))),
    "search, a class of one": search(_few((50, 40, 1)), scoring="balanced_accuracy"),
    "search, one class in a fold": search(
        lambda X, y: (X[np.argsort(y)], np.sort(y)),
        cv=PredefinedSplit([0] * 50 + [1] * 50 + [2] * 50),
    ),
    "search, sorted rows, unshuffled": search(
        lambda X, y: (X[np.argsort(y)], np.sort(y)), cv=ShuffleSplit(2, random_state=0)
    ),
    "search, groups of text": search(same, fit=_groups, cv=GroupKFold(3)),
    "search, splits as a generator": search(
        same, cv=[(np.arange(100), np.arange(100, 150)), (list(range(50, 150)), list(range(50)))]
    ),
    "search, splits of masks": search(same, cv=[(np.arange(150) < 100, np.arange(150) >= 100)] * 2),
    "search, splits that overlap": search(same, cv=[(np.arange(150), np.arange(75))] * 2),
    "search, negative rows": search(same, cv=[(np.arange(-100, 0), np.arange(50))] * 2),
    "search, empty fold": search(same, cv=[(np.arange(150), np.arange(0))] * 2),
    "search, weights": search(same, fit=lambda rng, n: {"sample_weight": rng.uniform(0, 3, n)}),
    "search, weights zero": search(
        same, fit=lambda rng, n: {"sample_weight": _weights("zero")(rng, n)}
    ),
    "search, weights short": search(same, fit=lambda rng, n: {"sample_weight": np.ones(n - 1)}),
    "search, C twice": search(same, {"C": [1.0, 1.0, 1], "gamma": [0.1]}),
    "search, C descending": search(same, {"C": [100.0, 1, 0.01], "gamma": [1.0, 0.01]}),
    "search, C of numpy": search(
        same, {"C": np.logspace(-2, 2, 3, dtype=np.float32), "gamma": np.array([0.1])}
    ),
    "search, C of text": search(same, {"C": ["1", "2"]}),
    "search, C 0 among": search(same, {"C": [0, 1], "gamma": [0.1]}, error_score=0.0),
    "search, empty grid": search(same, {"C": []}),
    "search, unknown parameter": search(same, {"D": [1]}),
    "search, gamma mixed": search(same, {"gamma": ["scale", 0.1, "auto", 1], "C": [1, 9]}),
    "search, kernels": search(
        same, {"kernel": ["linear", "poly", "rbf"], "C": [1.0], "degree": [2, 3]}
    ),
    "search, class weights": search(
        same, {"class_weight": [None, "balanced", {0: 3.0}], "C": [0.1, 1]}
    ),
    "search, probabilities": search(
        lambda X, y: (X, y > 0), {"C": [1.0], "probability": [False]}, scoring="roc_auc"
    ),
    "search, several scorers": search(same, scoring={"a": "accuracy", "b": "f1_macro"}, refit="b"),
    "search, no refit": search(same, refit=False),
    "search, cv 1": search(same, cv=1),
    "search, cv too large": search(_few((5, 5, 5)), cv=6),
    "search, train scores": search(same, return_train_score=True),
    "search, scorer of two classes": search(same, scoring="f1"),
    "search, precomputed": search(_gram, {"kernel": ["precomputed"], "C": [0.1, 1, 10]}),
    "neighbours, k above rows": plain({"n_neighbors": [1, 3, 500]}, KNeighborsClassifier),
    "neighbours, k twice and 0": plain(
        {"n_neighbors": [3, 3, 0]}, KNeighborsClassifier, error_score=-1
    ),
    "neighbours, ties of rows": plain(
        {"n_neighbors": [1, 2, 4], "weights": ["uniform", "distance"]},
        KNeighborsClassifier,
        lambda X, y: (np.tile(X.round(), (2, 1)), np.r_[y, (y + 1) % 3]),
    ),
    "neighbours, metrics": plain(
        {"n_neighbors": [2, 5], "metric": ["cosine", "manhattan", "chebyshev"]},
        KNeighborsClassifier,
    ),
    "neighbours, sparse": plain(
        {"n_neighbors": [2, 5], "p": [1, 2]},
        KNeighborsClassifier,
        lambda X, y: (sp.csr_matrix(X), y),
    ),
    "neighbours, text labels": plain(
        {"n_neighbors": [2, 4]}, KNeighborsClassifier, _labels("b", "a", "c")
    ),
    "neighbours, shifted": plain(
        {"n_neighbors": [1, 4]}, KNeighborsClassifier, lambda X, y: (X + 1e7, y)
    ),
    "neighbours, several labels": plain(
        {"n_neighbors": [1, 4]}, KNeighborsClassifier, lambda X, y: (X, np.c_[y, y[::-1]])
    ),
    **{
        f"search of {name}": (lambda rng, name=name: _named(rng, name))
        for name in (
            "ridge",
            "ridge, constant",
            "ridge, shifted",
            "ridge, wide",
            "forest",
            "boosting",
            "hist",
            "pipeline",
            "pca",
            "bagging",
            "ridge, weights of 0",
        )
    },
    "ranks, pairs": ranks(lambda a, b, w: np.c_[a, b], ones),
    "ranks, pairs of 8 bits": ranks(lambda a, b, w: np.c_[a, b].astype(np.uint8), ones),
    "ranks, Fortran, read-only": ranks(
        lambda a, b, w: _readonly(np.asfortranarray(np.c_[a, b]), a)[0], ones
    ),
    "ranks, pairs of big end": ranks(lambda a, b, w: np.c_[a, b].astype(">i8"), ones),
    "ranks, pairs of floats": ranks(lambda a, b, w: np.c_[a, b].astype(float), ones, refusal=True),
    "ranks, pairs of truth": ranks(lambda a, b, w: np.c_[a > 9, b > 9], None, refusal=True),
    "ranks, pairs near 2^63": ranks(
        lambda a, b, w: np.c_[a, b].astype(np.uint64) + np.uint64(2**63),
        lambda a, b, w: [(i + 2**63, j + 2**63, 1.0) for i, j, _ in edges(a, b, w)],
    ),
    "ranks, pairs of signs mixed": ranks(
        lambda a, b, w: (a.astype(np.int64) - 9, b.astype(np.uint64)),
        lambda a, b, w: [(i - 9, j, 1.0) for i, j, _ in edges(a, b, w)],
        refusal=True,
    ),
    "ranks, beyond doubles mixed": ranks(
        lambda a, b, w: (a.astype(np.int64) + 2**53, b.astype(np.uint64) + np.uint64(2**53)),
        lambda a, b, w: [(i + 2**53, j + 2**53, 1.0) for i, j, _ in edges(a, b, w)],
        refusal=True,
    ),
    "ranks, three columns": ranks(lambda a, b, w: np.c_[a, b, w], edges, refusal=True),
    "ranks, tuple": ranks(lambda a, b, w: (a, b, w), edges),
    "ranks, tuple of lists": ranks(
        lambda a, b, w: (a.tolist(), b.tolist(), w.tolist()), edges, refusal=True
    ),
    "ranks, a list of pairs": ranks(
        lambda a, b, w: list(zip(a.tolist(), b.tolist(), strict=True)), ones, refusal=True
    ),
    "ranks, lengths differ": ranks(lambda a, b, w: (a, b[1:]), lambda a, b, w: [], refusal=True),
    "ranks, names of objects": ranks(
        lambda a, b, w: (
            np.array([f"n{i}" for i in a], object),
            np.array([f"n{j}" for j in b], object),
        ),
        lambda a, b, w: [(f"n{i}", f"n{j}", 1.0) for i, j, _ in edges(a, b, w)],
    ),
    "ranks, names mixed": ranks(
        lambda a, b, w: (a.astype(object), np.array([str(j) for j in b], object)),
        None,
        refusal=True,
    ),
    "ranks, frame": ranks(_frame, edges, weight="w"),
    "ranks, frame of another index": ranks(
        lambda a, b, w: _frame(a, b, w).set_index(np.arange(120)[::-1]), edges, weight="w"
    ),
    "ranks, frame of categories": ranks(
        lambda a, b, w: _frame(a, b, w).astype({"from": "category", "to": "category"}),
        edges,
        weight="w",
    ),
    "ranks, frame of nullable": ranks(
        lambda a, b, w: _frame(a, b, w).convert_dtypes(), edges, weight="w"
    ),
    "ranks, frame with missing": ranks(
        lambda a, b, w: _frame(a, b, w).assign(to=pd.array([None, *b[1:]], "Int64")),
        lambda a, b, w: [],
        refusal=True,
    ),
    "ranks, frame, weight absent": ranks(_frame, lambda a, b, w: [], weight="v", refusal=True),
    "ranks, frame of tuples": ranks(
        lambda a, b, w: pd.DataFrame(
            {"a": [(int(i), 0) for i in a], "b": [(int(j), 0) for j in b]}
        ),
        None,
        refusal=True,
    ),
    "ranks, frame of dates": ranks(
        lambda a, b, w: pd.DataFrame(
            {"a": pd.to_datetime(a, unit="D"), "b": pd.to_datetime(b, unit="D")}
        ),
        None,
        refusal=True,
    ),
    "ranks, frame swapped": ranks(
        lambda a, b, w: _frame(b, a, w), edges, source="to", target="from", weight="w"
    ),
    **{
        f"ranks, {kind.__name__}": ranks(
            _sparse(lambda *x, kind=kind, **k: kind(sp.coo_matrix(*x, **k))), edges, nodes=None
        )
        for kind in (
            sp.coo_matrix,
            sp.csr_array,
            sp.csc_matrix,
            sp.lil_matrix,
            sp.dok_matrix,
            sp.bsr_matrix,
        )
    },
    "ranks, sparse not square": ranks(
        lambda a, b, w: sp.coo_matrix((w, (a, b)), shape=(34, 50)), lambda a, b, w: [], refusal=True
    ),
    "ranks, sparse of truth": ranks(
        lambda a, b, w: sp.csr_matrix((np.ones(120, bool), (a, b)), shape=(34, 34)),
        lambda a, b, w: [(i, j, 1.0) for i, j in {(i, j) for i, j, _ in edges(a, b, w)}],
        refusal=True,
    ),
    "ranks, sparse of 8 bits": ranks(
        lambda a, b, w: sp.coo_matrix((np.full(120, 100, np.int8), (a % 3, b % 3)), shape=(3, 3)),
        lambda a, b, w: [(int(i) % 3, int(j) % 3, 100.0) for i, j in zip(a, b, strict=True)],
        refusal=True,
    ),
    "ranks, dense adjacency": ranks(
        lambda a, b, w: np.eye(40, dtype=int)[::-1], None, refusal=True
    ),
    "ranks, weights of 8 bits": ranks(
        lambda a, b, w: (a % 3, b % 3, np.full(120, 100, np.int8)),
        lambda a, b, w: [(int(i) % 3, int(j) % 3, 100.0) for i, j in zip(a, b, strict=True)],
    ),
    "ranks, weights shifted": ranks(
        lambda a, b, w: (a, b, w + 1e12),
        lambda a, b, w: [(i, j, v + 1e12) for i, j, v in edges(a, b, w)],
    ),
    "ranks, weights tiny": ranks(lambda a, b, w: (a, b, w * 1e-310), None),
    "ranks, weights negative": ranks(
        lambda a, b, w: (a, b, w - 4), lambda a, b, w: [], refusal=True
    ),
    "ranks, weights complex": ranks(
        lambda a, b, w: (a, b, w + 1j), lambda a, b, w: [], refusal=True
    ),
    "ranks, weights of text": ranks(lambda a, b, w: (a, b, w.astype(str)), edges, refusal=True),
    "ranks, alpha near 1": ranks(lambda a, b, w: (a, b), ones, alpha=0.99),
    "ranks, alpha tiny": ranks(lambda a, b, w: (a, b), ones, alpha=1e-9),
    **{
        f"ranks, {k}={v!r}": ranks(
            lambda a, b, w: (a, b), lambda a, b, w: [], refusal=True, **{k: v}
        )
        for k, v in [
            ("alpha", 1),
            ("alpha", 0.0),
            ("alpha", "0.5"),
            ("alpha", np.nan),
            ("iterations", 0),
            ("iterations", 1.5),
            ("nodes", 3),
            ("nodes", -1),
            ("nodes", 2**40),
            ("dangling", "Uniform"),
            ("self_loops", True),
            ("n_jobs", 0),
            ("device", "tpu"),
        ]
    },
    "ranks, no edges": ranks(
        lambda a, b, w: np.empty((0, 2), int), lambda a, b, w: [], refusal=True
    ),
    "nets, Fortran, read-only": nets(lambda X, y: _readonly(np.asfortranarray(X), y)),
    "nets, single precision": nets(lambda X, y: (X.astype(np.float32), y.astype(np.uint8))),
    "nets, frame": nets(lambda X, y: (pd.DataFrame(X, index=range(90, 0, -1)), pd.Series(y))),
    "nets, sparse": nets(lambda X, y: (sp.csr_matrix(X), y)),
    "nets, shifted by 1e8": nets(lambda X, y: (X + 1e8, y)),
    "nets, scaled by 1e-30": nets(lambda X, y: (X * 1e-30, y)),
    "nets, scaled by 1e40": nets(lambda X, y: (X * 1e40, y)),
    "nets, constant column more": nets(lambda X, y: (np.c_[X[:, :5], X[:, 5:]], y)),
    "nets, labels of text": nets(_labels("a", "b", "c")),
    "nets, labels beyond doubles": nets(_labels(2**53, 2**53 + 1, 2**53 + 2)),
    "nets, labels of truth and text": nets(_labels("1", 0, True, dtype=object)),
    "nets, labels of bytes": nets(_labels(b"a", b"b", b"c")),
    "nets, labels with NaN": nets(lambda X, y: (X, np.where(y == 2, np.nan, y.astype(float)))),
    "nets, infinite": nets(lambda X, y: (np.where(X > 3, np.inf, X), y)),
    "nets, one class": nets(lambda X, y: (X, y * 0)),
    "nets, y of a column": nets(lambda X, y: (X, y[:, None])),
    "nets, a torch tensor": nets(
        lambda X, y: (__import__("torch").tensor(X), __import__("torch").tensor(y))
    ),
}
MAY_REFUSE = (
    "nets, scaled by 1e40",
    "nets, labels of truth",
    "nets, labels with NaN",
    "nets, infinite",
    "nets, one class",
    "nets, y of",
    "nets, sparse",
    "SVC, scaled by 1e160",
    "SVC, beyond singles",
    "ranks, weights tiny",
    "SVC, scaled by 1e30",
    "SVC, C=inf",
    "SVC, gamma=0.0",
    "SVC, max_iter=0",
    "search, scaled",
    "search, scorer of two",
    "search, precomputed",
    "nets, labels of bytes",
)


def _named(rng: Any, name: str) -> None:
    from sklearn.decomposition import PCA
    from sklearn.ensemble import (
        BaggingClassifier,
        GradientBoostingClassifier,
        HistGradientBoostingClassifier,
        RandomForestClassifier,
    )
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    alphas = {"alpha": [1e-8, 1.0, 1e6]}
    change: dict[str, Maker] = {
        "ridge, constant": lambda X, y: (np.c_[X, np.ones(len(X)), X[:, 0]], y),
        "ridge, shifted": lambda X, y: (X + 1e5, y + 1e6),
        "ridge, wide": lambda X, y: (np.tile(X, 40)[:60] + np.arange(240) % 7, y[:60]),
    }
    if name.startswith("ridge"):
        keywords = {"fit_intercept": "weights" not in name}
        plain(alphas, lambda: Ridge(**keywords), change.get(name, same), cv=3, refit=False)(rng)
        return
    grids: dict[str, tuple[Any, Any]] = {
        "forest": (
            {"n_estimators": [1, 5, 9], "max_depth": [2, None]},
            lambda: RandomForestClassifier(random_state=3),
        ),
        "boosting": (
            {"n_estimators": [1, 5, 9]},
            lambda: GradientBoostingClassifier(random_state=3, subsample=0.5),
        ),
        "hist": (
            {"max_iter": [1, 9]},
            lambda: HistGradientBoostingClassifier(random_state=3, early_stopping=True),
        ),
        "bagging": (
            {"n_estimators": [1, 4]},
            lambda: BaggingClassifier(random_state=3, oob_score=False, max_samples=0.5),
        ),
        "pipeline": (
            {"svc__C": [0.1, 9], "standardscaler__with_std": [True, False]},
            lambda: make_pipeline(StandardScaler(), SVC()),
        ),
        "pca": (
            {"pca__n_components": [1, 3, 0.9], "svc__C": [1.0]},
            lambda: make_pipeline(PCA(), SVC()),
        ),
    }
    grid, estimator = grids[name]
    plain(grid, estimator)(rng)


def call(name: str, seed: int) -> tuple[str, str]:
    """The verdict on a call."""
    rng = np.random.default_rng([seed, *name.encode()])

    def stop(*_: Any) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            CALLS[name](rng)
    except TimeoutError:
        return "hang", f"no end after {SECONDS} s"
    except Differs as error:
        return "wrong", str(error)
    except Refused as error:
        return ("held" if name.startswith(MAY_REFUSE) else "refusal"), str(error)
    except Exception as error:
        return "traceback", f"{error!r}: {traceback.format_exc().splitlines()[-3].strip()}"[:400]
    finally:
        signal.alarm(0)
    return "held", ""


def main() -> int:
    faulthandler.enable()
    load_digits()
    names = list(CALLS)
    numbers_ = [int(word) for word in sys.argv[2:]] or range(len(names))
    for number in numbers_:
        print(json.dumps([number, "began"]), flush=True)
        print(json.dumps([number, *call(names[number], int(sys.argv[1]))]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
