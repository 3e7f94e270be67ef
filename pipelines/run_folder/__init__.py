"""A run's folder: its files and their columns, what writes them and what reads them.

This package imports neither the session that writes a run nor the report that reads it; both import
this package.
"""
