"""Checks before a run: what it would do, and what it would cost."""
