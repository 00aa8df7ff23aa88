"""Entry points with the signatures of other tools."""
