"""Schedules replayed on task times that real runs measured."""
