"""Kernel support vector machines: solvers, backends, the estimators."""
