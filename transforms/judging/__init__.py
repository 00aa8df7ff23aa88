"""The building blocks of judge metrics: prompts, answer schemas, the strict parser and panels."""
