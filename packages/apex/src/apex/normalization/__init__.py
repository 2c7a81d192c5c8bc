"""Added below."""
