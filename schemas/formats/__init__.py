"""Formats of other tools: ADK, Databricks, Vertex AI, chat messages."""
