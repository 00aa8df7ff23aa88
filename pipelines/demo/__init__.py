"""A bundled evaluation of a small smart-home agent: its dataset, the agent and the configuration."""
