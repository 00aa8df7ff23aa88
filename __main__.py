"""`python -m evalbeam`: the command `evalbeam`, for where its script is not on the PATH."""

from __future__ import annotations

from .pipelines.cli.main import command

if __name__ == "__main__":
    command()
