"""Grids of any estimator, by ours and by its peers."""
