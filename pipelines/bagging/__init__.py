"""Bagging: members trained on bootstrap samples, reduced to one answer and its uncertainty."""
