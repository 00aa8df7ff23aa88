"""Builds an EvaluationConfig from files, command-line options and Python arguments."""
