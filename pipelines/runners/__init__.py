"""Beam's runners: options, jobs, clusters, workers."""
