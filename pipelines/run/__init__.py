"""One run: plan, build, resume, result."""
