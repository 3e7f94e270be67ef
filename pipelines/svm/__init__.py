"""Kernel support vector machines: estimators, backends, and the path solver."""
