"""The schema of configuration files."""
