"""ADK's eval sets: read, evaluated and reported."""
