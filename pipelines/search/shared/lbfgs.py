"""Several L-BFGS-B minimisations in parallel, whose functions are evaluated together.

``scipy.optimize.minimize`` evaluates one function at one point at a time. But the solver beneath it
returns control whenever it needs a value, so many solvers can wait for one evaluation of all. Each
takes the steps that ``minimize`` takes, and equally many. Only this file uses scipy's private
names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from scipy import optimize

N_CORRECTIONS = 10  # the default of ``minimize``, with the next
MOST_EVALUATIONS = 15000
SIGNATURE = "setulb(m,x,l,u,nbd,f,g,factr,pgtol,wa,iwa,task,lsave,isave,dsave,maxls,ln_task)"
NEW_STEP, CONVERGED, STOPPED, NEEDS_VALUE = 1, 4, 5, 3  # the solver's codes of its state
AT_MAX_ITER, AT_MOST_EVALUATIONS = 504, 502
Evaluate = Callable[[Sequence[int], np.ndarray], tuple[Iterable[float], Iterable[np.ndarray]]]


def is_known_scipy() -> bool:
    """Whether scipy's solver has the signature for which this file was written."""
    setulb = getattr(getattr(optimize, "_lbfgsb", None), "setulb", None)
    return getattr(setulb, "__doc__", None) == SIGNATURE


class Minimisation:
    """One minimisation without bounds, from zero, that is given its values from outside.

    Parameters
    ----------
    n_variables : int
    options : dict
        See ``minimise_together``.

    Attributes
    ----------
    x : float array of shape (n_variables,)
        The point at which a value is needed; at the end the minimum.
    n_steps : int
        Iterations so far.
    """

    def __init__(self, n_variables: int, options: dict[str, Any]) -> None:
        n, m = n_variables, N_CORRECTIONS
        self.options, self.n_steps, self.n_evaluations = options, 0, 0
        self.x = np.zeros(n)
        self.bounds = np.zeros(n), np.zeros(n), np.zeros(n, np.int32)  # 0: a variable has none
        # Sizes of the work arrays as ``setulb`` wants them.
        self.work = np.zeros(2 * m * n + 5 * n + 11 * m * m + 8 * m), np.zeros(3 * n, np.int32)
        self.task, self.search_task = np.zeros(2, np.int32), np.zeros(2, np.int32)
        self.saved = np.zeros(4, np.int32), np.zeros(44, np.int32), np.zeros(29)

    def goes_on(self, value: float, gradient: np.ndarray) -> bool:
        """Continue with the value and the gradient at ``x``, up to the next point.

        Parameters
        ----------
        value : float
        gradient : float array of shape (n_variables,)
            The solver may keep a reference to it.

        Returns
        -------
        bool
            Whether it needs a value at the new ``x``; False at the end.
        """
        options, task = self.options, self.task
        self.n_evaluations += bool(self.task[0])  # task 0 is the start, which uses no value
        while True:
            optimize._lbfgsb.setulb(
                N_CORRECTIONS,
                self.x,
                *self.bounds,
                value,
                gradient,
                options["ftol"] / np.finfo(float).eps,
                options["gtol"],
                *self.work,
                task,
                *self.saved,
                options["maxls"],
                self.search_task,
            )
            if task[0] != NEW_STEP:
                return bool(task[0] == NEEDS_VALUE)
            self.n_steps += 1
            if self.n_steps >= options["maxiter"]:
                task[:] = STOPPED, AT_MAX_ITER
            elif self.n_evaluations > MOST_EVALUATIONS:
                task[:] = STOPPED, AT_MOST_EVALUATIONS

    @property
    def result(self) -> optimize.OptimizeResult:
        """The end as ``minimize`` reports it: ``x``, ``nit``, ``status`` and ``message``."""
        from scipy.optimize import _lbfgsb_py as texts

        at_limit = self.n_evaluations > MOST_EVALUATIONS or self.n_steps >= self.options["maxiter"]
        message = f"{texts.status_messages[self.task[0]]}: {texts.task_messages[self.task[1]]}"
        status = 0 if self.task[0] == CONVERGED else 1 if at_limit else 2
        return optimize.OptimizeResult(x=self.x, nit=self.n_steps, status=status, message=message)


def minimise_together(
    evaluate: Evaluate, n_functions: int, n_variables: int, **options: Any
) -> list[optimize.OptimizeResult]:
    """Minimise several functions from zero, each as ``minimize(method="L-BFGS-B")`` does.

    Parameters
    ----------
    evaluate : function of (indices, variables)
        Evaluates some of the functions: ``indices`` are their positions, ``variables`` is an array
        of shape (n_indices, n_variables). Returns n_indices values and as many gradients of
        n_variables.
    n_functions, n_variables : int
    **options
        ``maxiter``, ``maxls``, ``gtol`` and ``ftol`` of scipy's method.

    Returns
    -------
    list of scipy.optimize.OptimizeResult
        In the order of the functions.

    Examples
    --------
    Two parabolas, with minima at 1 and 3:

    >>> centres = np.array([[1.0], [3.0]])
    >>> def evaluate(indices, variables):
    ...     distances = variables - centres[indices]
    ...     return (distances**2).sum(axis=1), 2 * distances
    >>> options = {"maxiter": 100, "maxls": 20, "gtol": 1e-6, "ftol": 1e-9}
    >>> [result.x.round(3).tolist() for result in minimise_together(evaluate, 2, 1, **options)]
    [[1.0], [3.0]]
    """
    descents = [Minimisation(n_variables, options) for _ in range(n_functions)]
    waiting = [
        i for i, descent in enumerate(descents) if descent.goes_on(0.0, np.zeros(n_variables))
    ]
    while waiting:
        values, gradients = evaluate(waiting, np.stack([descents[i].x for i in waiting]))
        waiting = [
            i
            for i, value, gradient in zip(waiting, values, gradients, strict=True)
            if descents[i].goes_on(value, gradient)
        ]
    return [descent.result for descent in descents]
