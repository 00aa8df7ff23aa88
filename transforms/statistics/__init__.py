"""Mergeable statistics, intervals, slices and criteria."""
