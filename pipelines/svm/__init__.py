"""Kernel support vector machines: solvers, units of work, the fitted model."""
