"""Machines on landmarks: a kernel approximated from some of the rows, for many rows."""
