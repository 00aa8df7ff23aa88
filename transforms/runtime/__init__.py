"""What lives in a worker process beside the rows: coders, counters, threads."""
