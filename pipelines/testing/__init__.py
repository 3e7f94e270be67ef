"""Contracts that parts of others can be held to: call them from a test of your own."""
