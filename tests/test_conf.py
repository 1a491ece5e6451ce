"""Settings about policies, rates, queues and names: how they are read, and what each mistake is told."""

import os
from typing import Any

import pytest
from django.test import override_settings

from webhooks_app import conf
from webhooks_app.core.policies import PRESETS, STRICT, Bounds
from webhooks_app.core.rate import Rate
from webhooks_app.exceptions import ConfigurationError


def problems(**values: Any) -> list[conf.Problem]:
    with override_settings(WEBHOOKS=values):
        return list(conf.load()[1])


def read(**values: Any) -> conf.Settings:
    with override_settings(WEBHOOKS=values):
        return conf.current()


def test_defaults() -> None:
    settings = read()
    assert settings.POLICIES == {}
    assert Bounds() == settings.POLICY_BOUNDS
    assert settings.URL_CHANGE == "keep"
    assert {settings.TENANT_RATE_LIMIT, settings.HOST_RATE_LIMIT} == {None}
    assert {settings.SLOW_QUEUE_NAME, settings.BULK_QUEUE_NAME, settings.NODE_NAME} == {None}


def test_policies_are_the_presets_and_the_operators_own() -> None:
    with override_settings(WEBHOOKS={"POLICIES": {"patient": {"base": "strict", "jitter": 0}}}):
        known = conf.policies()
        assert list(known) == [*PRESETS, "patient"]
        assert (known["strict"], known["patient"].jitter) == (STRICT, 0)
        assert conf.policies() is known
    with override_settings(WEBHOOKS={}):
        assert list(conf.policies()) == list(PRESETS)


def test_own_policies_keep_to_the_bounds_whatever_stands_first() -> None:
    policies = {"long": {"base": "quick", "waits": [1] * 40}}
    for order in ("POLICIES", "POLICY_BOUNDS"), ("POLICY_BOUNDS", "POLICIES"):
        values = {"POLICIES": policies, "POLICY_BOUNDS": {"max_attempts": 41}}
        assert read(**{key: values[key] for key in order}).POLICIES["long"].max_attempts == 41
    assert "at most 29 entries" in problems(POLICIES=policies)[0].message


@pytest.mark.parametrize(
    ("key", "value", "words", "hint"),
    [
        ("POLICIES", [], "must be a dict", "base"),
        ("POLICIES", {"strict": {"base": "standard"}}, 'in "strict": the name is a preset', "base"),
        ("POLICIES", {"mine": {"jitter": 0.1}}, 'in "mine": base: must be one of standard, strict', "base"),
        ("POLICIES", {"mine": {"base": "quick", "jiter": 0.1}}, "jiter: unknown field", "base"),
        ("POLICIES", {"mine": "quick"}, 'in "mine": must be an object', "base"),
        ("POLICIES", {5: {"base": "quick"}}, 'in "5": the name must be', "base"),
        ("POLICY_BOUNDS", 30, "must be an object", "max_attempts"),
        ("POLICY_BOUNDS", {"max_attempts": 0}, "max_attempts: must be from 1 to 1000", "max_attempts"),
        ("POLICY_BOUNDS", {"attempts": 5}, "attempts: unknown bound", "max_attempts"),
        ("TENANT_RATE_LIMIT", 50, "must be {", "per_second"),
        ("TENANT_RATE_LIMIT", {"per_second": 0}, "per_second: must be from 0.001", "per_second"),
        ("HOST_RATE_LIMIT", {"burst": 5}, "per_second: is required", "per_second"),
        ("URL_CHANGE", "ask", "must be one of keep, disable", "reference"),
        ("SLOW_QUEUE_NAME", "", "must be a non-empty string", "reference"),
        ("BULK_QUEUE_NAME", 5, "must be a non-empty string", "reference"),
        ("NODE_NAME", "n" * 65, "must have at most 64 characters", "reference"),
        ("NODE_NAME", "", "must be a non-empty string", "reference"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_every_mistake_is_a_problem_with_a_hint(key: str, value: Any, words: str, hint: str) -> None:
    [found] = problems(**{key: value})
    assert found.key == key
    assert words in found.message
    assert hint in found.hint
    with override_settings(WEBHOOKS={key: value}), pytest.raises(ConfigurationError, match=key):
        conf.current()
    with override_settings(WEBHOOKS={key: value}), pytest.raises(ConfigurationError, match=key):
        conf.policies()


def test_all_faulty_policies_are_told_and_the_right_ones_are_kept() -> None:
    values = {"POLICIES": {"a": {}, "b": {"base": "quick"}, "c": {"base": "?"}}, "MAX_ENDPOINTS": 0}
    assert [problem.key for problem in problems(**values)] == ["MAX_ENDPOINTS", "POLICIES", "POLICIES"]
    with override_settings(WEBHOOKS=values):
        assert list(conf.load()[0].POLICIES) == ["b"]


def test_rates_queues_and_url_change() -> None:
    settings = read(
        TENANT_RATE_LIMIT={"per_second": 5, "burst": 50},
        HOST_RATE_LIMIT={"per_second": 2},
        SLOW_QUEUE_NAME="slow",
        BULK_QUEUE_NAME="bulk",
        URL_CHANGE="disable",
    )
    assert (Rate(5.0, 50.0), Rate(2.0, 2.0)) == (settings.TENANT_RATE_LIMIT, settings.HOST_RATE_LIMIT)
    assert (settings.SLOW_QUEUE_NAME, settings.BULK_QUEUE_NAME) == ("slow", "bulk")
    assert settings.URL_CHANGE == "disable"


def test_a_node_is_called_as_the_operator_says_or_by_host_and_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with override_settings(WEBHOOKS={"NODE_NAME": "n" * 64}):
        assert conf.node_name() == "n" * 64
    with override_settings(WEBHOOKS={}):
        monkeypatch.setattr("platform.node", lambda: "host")
        assert conf.node_name() == f"host:{os.getpid()}"
        monkeypatch.setattr("platform.node", lambda: "h" * 300)
        monkeypatch.setattr("os.getpid", lambda: 4_194_304)
        assert conf.node_name() == "h" * 56 + ":4194304"
