"""The limiter by itself: time is a number. `test_endpoint_queue_rates.py` has it at work, against servers."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalbeam.schemas.config.calls import CallPolicy
from evalbeam.transforms.calls.rate_limiter import AdaptiveRateLimiter

MOST = 64


def opened(processes=1, **policy):
    limiter = AdaptiveRateLimiter()
    limiter.open([CallPolicy(max_in_flight=MOST, **policy).for_one_of(processes)])
    return limiter


def refuse(limiter, now, times=1):
    for _ in range(times):
        limiter.wait(now)
        limiter.refused(now, now, None)


def paced(rate, now=10.0, processes=1):
    """A limiter that has just begun, since so many calls a second were admitted and then none."""
    limiter = opened(processes)
    for i in range(int(10 * rate)):
        assert limiter.wait(now - 10 + i / rate) == 0.0
    while math.isinf(limiter.rate(now)):
        limiter.refused(now, now, None)
    limiter.accepted()
    return limiter


@pytest.mark.parametrize(("processes", "first"), [(1, 8), (2, 4), (8, 1), (16, 1)])
def test_all_processes_of_a_run_start_as_carefully_together_as_one(processes, first):
    limiter = opened(processes)
    assert limiter.limit == first
    windows = [limiter.limit for step in range(9) if limiter.growing(step / 4) or True]
    assert windows == [min(MOST, first * 2**step) for step in range(9)]


def test_a_caller_that_joins_later_does_not_start_the_window_again():
    limiter = opened(16)
    for step in range(9):
        limiter.growing(step / 4)
    limiter.open([CallPolicy(max_in_flight=5).for_one_of(16), CallPolicy(max_in_flight=MOST).for_one_of(16)])
    assert limiter.limit == 5
    limiter.open([CallPolicy(max_in_flight=MOST).for_one_of(16)])
    assert limiter.limit == 5


def test_a_window_that_opens_gives_up_the_places_of_refused_calls_and_does_not_grow_while_they_are_many():
    limiter = opened()
    assert limiter.growing(0.0)
    refuse(limiter, 0.1)
    assert limiter.limit == 7
    limiter.accepted()
    assert limiter.limit == 8  # one refusal is no reason not to grow
    refuse(limiter, 0.1)
    held = limiter.limit
    assert held == 7
    limiter.accepted()
    assert limiter.growing(0.9)
    assert limiter.limit == held
    for _ in range(20):  # further calls that are not refused show that the refusals were few
        limiter.wait(0.9)
    limiter.accepted()
    assert limiter.limit == held + 1
    assert math.isinf(limiter.rate(0.9))


def test_a_window_that_is_held_opens_again_by_time_alone():
    """An endpoint that takes minutes to answer has refused two calls, and the window is full of others."""
    limiter = opened()
    limiter.growing(0.0)
    refuse(limiter, 0.0, times=2)
    windows = [limiter.limit for step in range(60) if limiter.growing(step / 4) or True]
    assert windows[:4] == [6] * 4
    assert windows == sorted(windows)
    assert windows[-1] == MOST
    assert math.isinf(limiter.rate(15.0))


def test_half_the_calls_refused_while_the_window_opens_begin_the_pacing_at_once():
    limiter = opened()
    limiter.growing(0.0)
    for _ in range(8):
        assert limiter.wait(0.0) == 0.0
    refusals = 0
    while math.isinf(limiter.rate(0.01)):
        limiter.refused(0.01, 0.0, None)
        refusals += 1
    assert refusals == 3
    assert limiter.limit == MOST  # from now on the limiter is the bound
    assert limiter.rate(0.01) < 8


def test_a_tenth_of_the_calls_refused_while_the_window_opens_begins_no_pacing():
    limiter, now = opened(), 0.0
    for i in range(400):
        now += 0.001
        assert limiter.wait(now) == 0.0
        if i % 10:
            limiter.accepted()
        else:
            limiter.refused(now, now, None)
        if limiter.limit == MOST:
            break
    assert limiter.limit == MOST
    assert math.isinf(limiter.rate(now))


def test_the_window_of_one_of_several_processes_opens_by_time_alone():
    alone, one = opened(), opened(2)
    for limiter in (alone, one):
        assert limiter.growing(0.0)
        for _ in range(20):
            limiter.accepted()
    assert (alone.limit, one.limit) == (28, 4)


def recovered(limiter, rate, now=10.0):
    """When the limiter is what it was: calls that are never refused are made as soon as they may."""
    while limiter.rate(now) < rate:
        now += limiter.wait(now) or 0.5 / rate
        limiter.accepted()
    return now


@pytest.mark.parametrize("rate", [2.0, 5.0, 50.0, 500.0])
def test_a_single_refusal_slows_down_for_a_while_and_leaves_nobody_behind(rate):
    limiter = paced(rate)
    now = recovered(limiter, rate)
    before = limiter.rate(now)
    limiter.refused(now, now, None)
    assert before / 2 <= limiter.rate(now) < 0.6 * before
    limiter.accepted()
    back = now + max(2.0, 8.0 / before)
    assert limiter.rate(back) == pytest.approx(before, rel=0.05)
    assert limiter.rate(now + 0.5 * (back - now)) < 0.6 * before
    assert limiter.rate(now + 1.5 * (back - now)) > 3 * before


def test_refusals_within_the_time_of_a_recovery_add_up():
    limiter = paced(50.0)
    now = recovered(limiter, 50.0)
    for _ in range(3):
        for _ in range(6):
            limiter.refused(now, now, None)
        limiter.accepted()
        now += 0.2
    assert limiter.rate(now) < 50.0 / 7


def test_pace_that_is_not_used_is_not_known_to_be_possible():
    limiter = paced(20.0)
    assert limiter.rate(10.0 + 3600.0) <= 4 * 20.0


def test_more_processes_probe_the_quota_more_rarely_each():
    rates = [paced(20.0, processes=n).rate(12.0) for n in (1, 4, 16, 64)]
    assert rates[0] == rates[1] > rates[2] > rates[3]


def test_processes_that_were_refused_together_do_not_come_together_again():
    random.seed(7)
    paces = [paced(20.0) for _ in range(8)]
    starts = []
    for limiter in paces:
        now = 10.0
        while limiter.stalled(now) < 60:  # nothing but refusals
            if wait := limiter.wait(now):
                now += wait
            else:
                limiter.refused(now, now, None)
        starts.append(now)
    assert len({round(now) for now in starts}) > 4


def test_refusals_of_one_moment_are_one_reason_to_slow_down():
    once, often = paced(20.0), paced(20.0)
    before = once.rate(20.0)
    for limiter in (once, often):
        limiter.refused(20.0, 20.0, None)
    for _ in range(5):
        often.refused(20.0, 20.0, None)  # sent before the cut
    following = 20.0 + 1 / once.rate(20.0)
    often.refused(following, following, None)  # the first one after it
    assert often.rate(following) == once.rate(following) < before


@given(st.lists(st.tuples(st.sampled_from("ware"), st.floats(0, 5)), max_size=200), st.integers(1, 64))
def test_whatever_happens_there_is_a_window_and_a_pace(events, processes):
    limiter, now = opened(processes), 0.0
    for event, seconds in events:
        now += seconds
        if event == "w":
            assert limiter.wait(now) >= 0.0
        elif event == "a":
            limiter.accepted()
        elif event == "r":
            limiter.refused(now, now - seconds / 2, None)
        else:
            limiter.growing(now)
        assert 1 <= limiter.limit <= MOST
        assert limiter.rate(now) > 0.0
    assert not math.isinf(limiter.wait(now))
