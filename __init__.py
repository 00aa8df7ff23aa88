"""evalbeam."""
