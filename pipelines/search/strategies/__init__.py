"""Strategies: which candidate is tried next, on which splits; one file each."""

STRATEGIES = ("grid", "race", "random", "halving", "tpe")
DRAWING = ("random", "tpe")  # those that draw candidates
