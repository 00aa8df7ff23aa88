"""Coders, counters and threads of worker processes."""
