"""Minimisations side by side end where scipy's end, after as many steps, with the same message."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from scipy.optimize import minimize, rosen, rosen_der

from pipelines.search.shared.lbfgs import minimise_together

N_VARIABLES = 6
Function = Callable[[np.ndarray], tuple[float, np.ndarray]]


def valley(scale):
    """Rosenbrock's function, stretched."""
    return lambda x: (float(rosen(scale * x)), scale * rosen_der(scale * x))


def wrong_way(x):
    """A bowl whose gradient points down, so that no step helps."""
    return float(((x - 1) ** 2).sum()), -2 * (x - 1)


FUNCTIONS: Sequence[Function] = (valley(1.0), valley(0.1), wrong_way, valley(7.0))


@pytest.mark.parametrize("maxiter", [0, 1, 5, 1000])
@pytest.mark.parametrize("gtol", [1e-1, 1e-5])
def test_each_minimisation_is_that_of_scipy(maxiter, gtol):
    options = {"maxiter": maxiter, "maxls": 50, "gtol": gtol, "ftol": 1e-14}
    n_asked = []

    def evaluate(places, variables):
        n_asked.append(len(places))
        pairs = [FUNCTIONS[index](x) for index, x in zip(places, variables, strict=True)]
        return [value for value, _ in pairs], [gradient for _, gradient in pairs]

    minima = minimise_together(evaluate, len(FUNCTIONS), N_VARIABLES, **options)
    steps = set()
    for function, minimum in zip(FUNCTIONS, minima, strict=True):
        expected = minimize(
            function, np.zeros(N_VARIABLES), method="L-BFGS-B", jac=True, options=options
        )
        np.testing.assert_array_equal(minimum.x, expected.x)
        assert (minimum.nit, minimum.status) == (expected.nit, expected.status)
        assert minimum.message == expected.message
        steps.add(expected.nit)
    assert n_asked[0] == len(FUNCTIONS)
    assert maxiter < 1000 or (len(steps) > 2 and n_asked[-1] == 1)
