"""The policy of an endpoint: by name, with its own values, whatever its row says."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from django.test import override_settings

from webhooks_app.core.policies import PRESETS, STANDARD, STRICT
from webhooks_app.destinations.policy import resolve

OWN = {"patient": {"base": "strict", "jitter": 0}}


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    with override_settings(WEBHOOKS={"POLICIES": OWN, "POLICY_BOUNDS": {"max_attempts": 3}}):
        yield


@pytest.mark.parametrize("name", PRESETS)
def test_presets(name: str) -> None:
    assert resolve(name, "{}") == PRESETS[name]


def test_a_policy_of_the_operators_own_with_an_endpoints_values() -> None:
    found = resolve("patient", json.dumps({"breaker": False}))
    assert found == replace(STRICT, name="patient", jitter=0.0, breaker=None)


def test_one_combination_is_one_object() -> None:
    assert resolve("patient", "{}") is resolve("patient", "{}")


@pytest.mark.parametrize("overrides", ['{"waits": [1, 1, 1]}', '{"nonsense": 1}', "[]", "null"])
def test_values_that_are_no_longer_allowed_are_left_out(overrides: str) -> None:
    assert resolve("strict", overrides) == STRICT


def test_a_policy_that_is_gone_is_the_default_one() -> None:
    assert resolve("gone", "{}") == STANDARD
    with override_settings(WEBHOOKS={"DEFAULT_POLICY": "strict"}):
        assert resolve("gone", '{"jitter": 0}') == replace(STRICT, jitter=0.0)
    with override_settings(WEBHOOKS={"DEFAULT_POLICY": "gone too"}):
        assert resolve("gone", "{}") == STANDARD


def test_other_settings_are_other_policies() -> None:
    assert resolve("patient", "{}").jitter == 0
    with override_settings(WEBHOOKS={"POLICIES": {"patient": {"base": "strict", "jitter": 0.5}}}):
        assert resolve("patient", "{}").jitter == 0.5
    assert resolve("patient", "{}").jitter == 0
