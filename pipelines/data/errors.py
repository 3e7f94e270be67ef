"""The one exception for input a user can put right; it has moved to ``pipelines.errors``."""

from pipelines.errors import InputError

__all__ = ["InputError"]
