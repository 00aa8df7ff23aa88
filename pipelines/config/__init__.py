"""What was typed becomes an EvaluationConfig."""
