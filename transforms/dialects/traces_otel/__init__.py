"""Traces of agents: `spans` reads the formats they are written in, `derive` what an evaluation takes from them."""
