import pytest

from evalbeam.schemas.config.calls import CallPolicy
from evalbeam.transforms.calls.errors import ClassifiedError
from evalbeam.transforms.calls.retries import RetryBudget


@pytest.mark.parametrize("attempts", [1, 2, 60, 1025, 1099])
def test_a_wait_is_bounded_however_often_a_call_was_refused(attempts):
    policy = CallPolicy(max_attempts=100, max_backoff=30)
    classified = ClassifiedError("rate_limited", "HttpError", "HTTP 429")
    wait = RetryBudget().wait(policy, attempts, attempts * 9 // 10, classified, 1e9)
    assert wait is not None
    assert 0 <= wait <= 30
