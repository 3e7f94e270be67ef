"""Schedules replayed on unit times that real runs measured."""
