"""What the study's grid would cost on a GPU: counts from a replay, seconds from arithmetic."""
