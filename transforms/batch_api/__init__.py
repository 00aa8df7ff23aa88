"""Batch APIs of the model providers."""
