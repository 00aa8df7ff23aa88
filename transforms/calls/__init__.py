"""The engine of all slow calls: queues, rate limits, retries, budgets."""
