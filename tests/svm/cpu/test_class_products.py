"""Products kept by class are those of all rows, wherever they are asked for."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from pipelines.svm.cpu.class_products import ClassProducts, products_by_class
from pipelines.svm.cpu.kernels import shared_products
from pipelines.svm.cpu.solver_threads import Resources
from pipelines.svm.kernel import Kernel
from pipelines.svm.search import PathSearch, problems_of, sort_rows
from pipelines.svm.settings import Settings

ROWS = np.random.default_rng(0).normal(size=(300, 5))
CLASSES = np.random.default_rng(1).integers(0, 4, 300)


@pytest.mark.parametrize("name", ["rbf", "poly"])
def test_any_rows_with_any_others(name):
    layout, kernel = sort_rows(CLASSES), Kernel(name)
    rows = ROWS[layout.order]
    whole = shared_products(rows, kernel)
    generator = np.random.default_rng(2)
    with ThreadPoolExecutor(2) as pool:
        kept = ClassProducts(rows, kernel, layout.starts, pool)
    for n_some, n_others in ((300, 300), (170, 300), (1, 40), (0, 7)):
        row_indices = np.sort(generator.permutation(300)[:n_some])
        column_indices = np.sort(generator.permutation(300)[:n_others])
        products = np.full((n_some, n_others), np.nan, np.float32)
        kept.between(row_indices, column_indices, products)
        np.testing.assert_allclose(
            products, whole[np.ix_(row_indices, column_indices)], rtol=1e-6, atol=1e-6
        )
        square = np.full((n_some, n_some), np.nan, np.float32)
        kept.between(row_indices, row_indices, square)
        np.testing.assert_array_equal(square, square.T)


def test_they_are_made_once_where_there_is_room_for_them():
    layout = sort_rows(CLASSES)
    search = PathSearch(
        layout,
        problems_of(4, "ovo"),
        np.ones((1, 300)),
        np.ones((1, 300)),
        [np.arange(300)],
        np.array([1.0]),
        Settings(),
        Kernel("rbf"),
    )
    sizes = np.sort(np.bincount(CLASSES))
    needed = 2 * (300**2 + (sizes**2).sum()) + 2 * 4 * sizes[-2:].sum() ** 2
    with ThreadPoolExecutor(2) as pool:
        assert products_by_class(search, ROWS, Resources(pool, int(needed / 0.8) - 1)) is None
        resources = Resources(pool, int(needed / 0.8) + 1)
        products = products_by_class(search, ROWS, resources)
        assert products is not None
        assert products_by_class(search, ROWS, resources) is products
