"""An agent that writes its calls into calls.txt, takes SECONDS for each, and kills its process after DIES_AFTER."""

from __future__ import annotations

from pathlib import Path

AGENT = """
import asyncio
import os

LIMIT = int(os.environ.get("DIES_AFTER", 10**9))
SECONDS = float(os.environ.get("SECONDS", 0))
made = 0


async def ask(prompt):
    global made
    made += 1
    if made > LIMIT:
        os.kill(os.getpid(), 9)
    with open("calls.txt", "a") as log:
        log.write(prompt + "\\n")
    if SECONDS:
        await asyncio.sleep(SECONDS)
    return {"response": prompt.upper(), "predicted_trajectory": [], "latency_in_seconds": len(prompt) / 8}
"""


def calls(folder: Path) -> list[str]:
    """The prompts of a folder's calls so far."""
    log = folder / "calls.txt"
    return log.read_text().split() if log.exists() else []
