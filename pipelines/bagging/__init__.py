"""Bagging: members trained on bootstrap samples, their vote or mean, and how far to trust it."""
