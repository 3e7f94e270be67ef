"""Schemas of ``run.json``: a common base, and a file for each command."""
