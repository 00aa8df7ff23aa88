"""Reading, evaluation and reporting of ADK's eval sets."""
