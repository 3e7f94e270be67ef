"""Checks for a machine with a GPU; they take what is installed there as it is."""
