import pickle

import pytest

from evalbeam.schemas.config.calls import CallPolicy, RateLimit
from evalbeam.schemas.config.evaluation import AgentConfig, EvaluationConfig
from evalbeam.schemas.errors import ConfigError

BASE = {"dataset": {"path": "rows.jsonl"}, "metrics": ["exact_match"]}


@pytest.mark.parametrize(
    ("given", "processes", "in_flight", "a_minute"),
    [
        ({}, 8, 64, None),
        ({"max_in_flight": 100, "max_in_flight_total": 400}, 8, 50, None),
        ({"max_in_flight": 10, "max_in_flight_total": 400}, 8, 10, None),
        ({"max_in_flight_total": 4}, 8, 1, None),
        ({"requests_per_minute": 600}, 8, 64, 75),
        ({"requests_per_minute": 600}, 1, 64, 600),
    ],
)
def test_the_limits_of_a_run_are_divided_over_its_processes(given, processes, in_flight, a_minute):
    policy = AgentConfig(target="m:f", timeout=7, **given).for_one_of(processes)
    assert type(policy) is CallPolicy
    assert policy.max_in_flight == in_flight
    assert policy.requests_per_minute == a_minute
    assert policy.timeout == 7
    assert pickle.loads(pickle.dumps(policy)).processes == processes  # it travels to the workers


@pytest.mark.parametrize(
    ("wrong", "key"),
    [
        ({"service": "limits"}, "service"),
        ({"service": "http://limits:80/x"}, "service"),
        ({"domain": ""}, "domain"),
        ({"descriptors": []}, "descriptors"),
        ({"descriptors": {"model": "m"}}, "descriptors"),
        ({"tls": True}, "tls"),
    ],
)
def test_a_rate_limit_service_is_an_address_a_domain_and_descriptors(wrong: dict[str, object], key: str) -> None:
    limit = {"service": "limits:8081", "domain": "models", "descriptors": [{"model": "m"}]}
    agent = EvaluationConfig.parse({**BASE, "agent": {"rate_limit": limit}}).agent
    assert agent.for_one_of(8).rate_limit == RateLimit(**limit)  # the whole limit: it is the service that divides it
    with pytest.raises(ConfigError, match=rf"agent\.rate_limit\.{key}"):
        EvaluationConfig.parse({**BASE, "agent": {"rate_limit": limit | wrong}})
