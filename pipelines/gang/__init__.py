"""Gangs: one torch rank on each worker, all or none."""
