"""What a run would do and cost, before it does it."""
