"""A run's folder: its files and their columns, what writes them and what reads them.

A leaf: the session that writes and the report that reads import it, it imports neither.
"""
