"""Dask imports this where it sends a frame."""
