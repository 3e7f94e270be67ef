"""Data sets: how they are read, split into folds, scaled and placed on devices."""
