"""What all tests share: where things are, and what may not be left out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("house", deadline=None)  # how long an example takes says how busy the machine is
settings.load_profile("house")

ROOT = Path(__file__).resolve().parent.parent
CONFORMANCE = ROOT.parent / "shared" / "conformance"
NOT_BESIDE = "the conformance data is not beside the project"


@pytest.fixture(scope="session")
def root() -> Path:
    """Root of the project."""
    return ROOT


@pytest.fixture(scope="session")
def conformance() -> Path:
    """Folder of the conformance data, which is not part of the repository."""
    if not CONFORMANCE.is_dir():
        pytest.skip(NOT_BESIDE)
    return CONFORMANCE


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    """Under EVALBEAM_REQUIRE_ALL=1 a test that leaves something out fails.

    But for the conformance data: it is no part of the repository, so a machine may lack it; its folder is all or none.
    """
    report: pytest.TestReport = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("EVALBEAM_REQUIRE_ALL") == "1":
        reason = str(call.excinfo and call.excinfo.value)
        if NOT_BESIDE not in reason:
            report.outcome = "failed"
            report.longrepr = f"left out although EVALBEAM_REQUIRE_ALL=1: {reason}"
    return report
