"""Data sets: reading, folds, scaling, placement."""
