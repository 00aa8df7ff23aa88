"""What a run has written, to be compared byte for byte."""

from __future__ import annotations

from pathlib import Path


def tables(folder: str | Path) -> dict[str, bytes]:
    """Bytes of a run's tables by their paths below its folder."""
    home = Path(folder)
    found = [*home.glob("instances/*"), *home.glob("summary.*"), *home.glob("errors.*")]
    assert len(found) >= 3, f"no tables in {home}"
    return {p.relative_to(home).as_posix(): p.read_bytes() for p in sorted(found)}


def instances(folder: str | Path) -> dict[str, bytes]:
    """Those of the instances table alone."""
    return {name: data for name, data in tables(folder).items() if name.startswith("instances/")}
