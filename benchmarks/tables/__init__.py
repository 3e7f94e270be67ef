"""Noisy tables on which two multipliers at a time are slow: ours beside ``SVC``, cell by cell."""
