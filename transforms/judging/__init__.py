"""What judge metrics are made of: prompts, the shape of answers, the strict parser and panels. No I/O but files."""
