"""An endpoint's own values within bounds, and policies of the operator's own."""

import json
from dataclasses import asdict, fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhooks_app.core.bounds import BOUND_LIMITS as LIMITS
from webhooks_app.core.overrides import DEFAULTS, OVERRIDES
from webhooks_app.core.policies import (
    DEFAULT_BOUNDS,
    PRESETS,
    QUICK,
    STANDARD,
    STRICT,
    AutoDisable,
    Bounds,
    Breaker,
    Policy,
    PolicyError,
    bounds_of,
    custom_policy,
    with_overrides,
)

DAYS = 86_400


def as_json(policy: Policy) -> dict[str, Any]:
    """Return every field that may be overridden, as an API would take it."""
    own: dict[str, Any] = {name: getattr(policy, name) for name in OVERRIDES}
    own = {name: sorted(value) if isinstance(value, frozenset) else value for name, value in own.items()}
    for name in ("auto_disable", "breaker"):
        part = getattr(policy, name)
        own[name] = asdict(part) if part else False
    parsed: dict[str, Any] = json.loads(json.dumps(own))
    return parsed


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("base", PRESETS)
def test_overrides_can_turn_every_preset_into_every_other_within_the_default_bounds(
    name: str, base: str
) -> None:
    wanted, other = PRESETS[name], PRESETS[base]
    defaults = {key: getattr(other, key) for key in DEFAULTS}
    assert with_overrides(other, as_json(wanted)) == replace(wanted, name=base, **defaults)


def test_no_overrides_change_nothing() -> None:
    assert with_overrides(STANDARD, {}) == STANDARD


def test_overrides_replace_only_what_they_name() -> None:
    given_ = {"waits": [1, 2.5], "jitter": 0, "connect_timeout": 1, "total_timeout": 60, "reply_bytes": 0}
    changed = with_overrides(STANDARD, given_)
    assert changed == replace(
        STANDARD, waits=(1.0, 2.5), jitter=0.0, connect_timeout=1.0, total_timeout=60.0, reply_bytes=0
    )
    assert isinstance(changed.reply_bytes, int)
    assert changed.max_attempts == 3


def test_no_waits_are_one_attempt() -> None:
    assert with_overrides(STANDARD, {"waits": []}).max_attempts == 1


@pytest.mark.parametrize(
    ("overrides", "path", "bound"),
    [
        ({"waits": [1] * 30}, "waits", "29"),
        ({"waits": [4 * DAYS, 4 * DAYS, 1]}, "waits", "691200"),
        ({"waits": [30, 0.5]}, "waits/1", "1"),
        ({"waits": [9 * DAYS]}, "waits/0", "691200"),
        ({"waits": [-1]}, "waits/0", "1"),
        ({"waits": [float("nan")]}, "waits/0", "1"),
        ({"waits": [float("inf")]}, "waits/0", "691200"),
        ({"waits": [10**400]}, "waits/0", "691200"),
        ({"waits": [True]}, "waits/0", "number"),
        ({"waits": ["30"]}, "waits/0", "number"),
        ({"waits": [None]}, "waits/0", "number"),
        ({"waits": "30"}, "waits", "list"),
        ({"waits": 30}, "waits", "list"),
        ({"waits": None}, "waits", "list"),
        ({"jitter": 0.51}, "jitter", "0.5"),
        ({"jitter": -0.01}, "jitter", "0"),
        ({"jitter": float("nan")}, "jitter", "0.5"),
        ({"jitter": True}, "jitter", "number"),
        ({"jitter": "0.1"}, "jitter", "number"),
        ({"connect_timeout": 0}, "connect_timeout", "0.1"),
        ({"connect_timeout": 16}, "connect_timeout", "total_timeout (15)"),
        ({"total_timeout": 61}, "total_timeout", "60"),
        ({"total_timeout": 4}, "total_timeout", "connect_timeout (5)"),
        ({"total_timeout": 8, "connect_timeout": 9}, "connect_timeout", "total_timeout (8)"),
        ({"reply_bytes": -1}, "reply_bytes", "0"),
        ({"reply_bytes": 65_537}, "reply_bytes", "65536"),
        ({"reply_bytes": 10**400}, "reply_bytes", "65536"),
        ({"reply_bytes": 10.0}, "reply_bytes", "whole"),
        ({"reply_bytes": False}, "reply_bytes", "number"),
        ({"name": "mine"}, "name", "waits"),
        ({"retried": [299]}, "retried/0", "300"),
        ({"retried": [500, 600]}, "retried/1", "599"),
        ({"retried": [500.0]}, "retried/0", "whole"),
        ({"retried": ["500"]}, "retried/0", "number"),
        ({"retried": [True]}, "retried/0", "number"),
        ({"retried": 500}, "retried", "list"),
        ({"retried": [500] * 301}, "retried", "300"),
        ({"retry_after_on": [200]}, "retry_after_on/0", "300"),
        ({"retry_refused": 1}, "retry_refused", "true or false"),
        ({"honours_control": "no"}, "honours_control", "true or false"),
        ({"gone_disables": None}, "gone_disables", "true or false"),
        ({"warns_redirect": 0}, "warns_redirect", "true or false"),
        ({"notify_tenant": []}, "notify_tenant", "true or false"),
        ({"replay_while_open": 1.0}, "replay_while_open", "true or false"),
        ({"free_deferrals": -1}, "free_deferrals", "0"),
        ({"free_deferrals": 11}, "free_deferrals", "10"),
        ({"free_deferrals": 1.0}, "free_deferrals", "whole"),
        ({"max_wait": 0.9}, "max_wait", "1"),
        ({"max_wait": 9 * DAYS}, "max_wait", "691200"),
        ({"max_wait": None}, "max_wait", "number"),
        ({"window": 0}, "window", "1"),
        ({"window": 8 * DAYS + 1}, "window", "691200"),
        ({"window": False}, "window", "number"),
        ({"time_to_live": 0}, "time_to_live", "1"),
        ({"time_to_live": 9 * DAYS}, "time_to_live", "691200"),
        ({"jitter_kind": "event"}, "jitter_kind", "delivery"),
        ({"jitter_kind": ["none"]}, "jitter_kind", "delivery"),
        ({"replay_id": "other"}, "replay_id", "same"),
        ({"default_ordering": "fifo"}, "default_ordering", "waits"),
        ({"default_max_in_flight": 5}, "default_max_in_flight", "waits"),
        ({"auto_disable": True}, "auto_disable", "false or an object"),
        ({"auto_disable": None}, "auto_disable", "false or an object"),
        ({"auto_disable": 0}, "auto_disable", "false or an object"),
        ({"auto_disable": {"failures": 0}}, "auto_disable/failures", "1"),
        ({"auto_disable": {"failures": 10_001}}, "auto_disable/failures", "10000"),
        ({"auto_disable": {"failures": 2.0}}, "auto_disable/failures", "whole"),
        ({"auto_disable": {"span": -1}}, "auto_disable/span", "0"),
        ({"auto_disable": {"span": 91 * DAYS}}, "auto_disable/span", "7776000"),
        ({"auto_disable": {"start_within": 0}}, "auto_disable/start_within", "1"),
        ({"auto_disable": {"start_span": -1}}, "auto_disable/start_span", "0"),
        ({"auto_disable": {"warnings": 0.5}}, "auto_disable/warnings", "list"),
        ({"auto_disable": {"warnings": [0.5, 0.5]}}, "auto_disable/warnings", "rise"),
        ({"auto_disable": {"warnings": [0.6, 0.5]}}, "auto_disable/warnings", "rise"),
        ({"auto_disable": {"warnings": [0.0099]}}, "auto_disable/warnings/0", "from 0.01 to"),
        ({"auto_disable": {"warnings": [0.9901]}}, "auto_disable/warnings/0", "to 0.99"),
        ({"auto_disable": {"warnings": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]}}, "auto_disable/warnings", "5"),
        ({"auto_disable": {"days": 5}}, "auto_disable/days", "span"),
        ({"auto_disable": {5: 5}}, "auto_disable/5", "span"),
        ({"breaker": True}, "breaker", "false or an object"),
        ({"breaker": {}}, "breaker/failures", "required"),
        ({"breaker": {"open_seconds": 5}}, "breaker/failures", "required"),
        ({"breaker": {"failures": 0}}, "breaker/failures", "1"),
        ({"breaker": {"failures": 10_001}}, "breaker/failures", "10000"),
        ({"breaker": {"failures": 5, "open_seconds": 0.5}}, "breaker/open_seconds", "1"),
        ({"breaker": {"failures": 5, "open_seconds": 86_401}}, "breaker/open_seconds", "86400"),
        ({"breaker": {"failures": 5, "probe_seconds": 0}}, "breaker/probe_seconds", "1"),
        ({"breaker": {"failures": 5, "probes": 0}}, "breaker/probes", "1"),
        ({"breaker": {"failures": 5, "probes": 101}}, "breaker/probes", "100"),
        ({"breaker": {"failures": 5, "probes_to_half_open": -1}}, "breaker/probes_to_half_open", "0"),
        ({"breaker": {"failures": 5, "probes_to_half_open": 101}}, "breaker/probes_to_half_open", "100"),
        ({"breaker": {"failures": 5, "successes_to_close": 101}}, "breaker/successes_to_close", "100"),
        ({"breaker": {"failures": 5, "successes_to_close": 0}}, "breaker/successes_to_close", "1"),
        ({"breaker": {"failures": 5, "state": "open"}}, "breaker/state", "probes"),
        ({"max_attempts": 3}, "max_attempts", "waits"),
        ({"": 1}, "", "waits"),
        ({1: 1}, "1", "waits"),
        ([], "", "object"),
        (None, "", "object"),
        ("waits", "", "object"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_refused_overrides_name_the_field_and_the_bound(overrides: Any, path: str, bound: str) -> None:
    with pytest.raises(PolicyError) as caught:
        with_overrides(STANDARD, overrides)
    assert caught.value.path == path
    assert bound in caught.value.message
    assert str(caught.value).endswith(caught.value.message)


def test_the_parts_of_an_object_are_changed_one_by_one() -> None:
    changed = with_overrides(STRICT, {"auto_disable": {"span": 60}, "breaker": {"probes": 1}})
    assert STRICT.auto_disable is not None
    assert STRICT.breaker is not None
    assert changed.auto_disable == replace(STRICT.auto_disable, span=60.0)
    assert changed.breaker == replace(STRICT.breaker, probes=1)


def test_false_turns_a_part_off() -> None:
    changed = with_overrides(STRICT, {"auto_disable": False, "breaker": False})
    assert (changed.auto_disable, changed.breaker) == (None, None)


def test_a_policy_without_a_part_can_get_it() -> None:
    changed = with_overrides(QUICK, {"auto_disable": {"failures": 5, "span": 0}, "breaker": {"failures": 7}})
    assert changed.auto_disable == AutoDisable(failures=5, span=0.0)
    assert changed.breaker == Breaker(7, 30.0, 30.0, 1, 0, 1)
    with pytest.raises(PolicyError, match="auto_disable/span: is required: quick has no auto_disable"):
        with_overrides(QUICK, {"auto_disable": {"failures": 5}})


@pytest.mark.parametrize(
    "overrides",
    [
        {"auto_disable": {"failures": 1, "span": 0, "warnings": [0.01, 0.99]}},
        {"auto_disable": {"failures": 10_000, "span": 90 * DAYS, "start_within": 1, "start_span": 90 * DAYS}},
        {"breaker": dict.fromkeys(["failures", "open_seconds", "probe_seconds", "probes"], 1)},
        {"breaker": {"failures": 1, "probes_to_half_open": 0, "successes_to_close": 1}},
        {"breaker": {"failures": 10_000, "open_seconds": DAYS, "probe_seconds": DAYS, "probes": 100}},
        {"breaker": {"failures": 1, "probes_to_half_open": 100, "successes_to_close": 100}},
        {"window": 1, "time_to_live": 8 * DAYS, "max_wait": 8 * DAYS, "free_deferrals": 10},
    ],
)
def test_the_limits_of_other_fields_are_allowed(overrides: dict[str, Any]) -> None:
    changed = as_json(with_overrides(QUICK, overrides))
    for name, value in overrides.items():
        assert value.items() <= changed[name].items() if isinstance(value, dict) else value == changed[name]


def test_null_lifts_a_limit() -> None:
    strict = replace(STRICT, time_to_live=60.0)
    changed = with_overrides(
        strict, {"window": None, "time_to_live": None, "auto_disable": {"start_within": None}}
    )
    assert (changed.window, changed.time_to_live) == (None, None)
    assert changed.auto_disable is not None
    assert changed.auto_disable.start_within is None


def test_statuses_are_a_set() -> None:
    changed = with_overrides(STANDARD, {"retried": [599, 300, 300], "retry_after_on": []})
    assert (changed.retried, changed.retry_after_on) == (frozenset({300, 599}), frozenset())


def test_the_limits_themselves_are_allowed() -> None:
    waits = [1.0] * 28 + [8 * DAYS - 28.0]
    assert with_overrides(STANDARD, {"waits": waits}).waits == tuple(waits)
    assert with_overrides(STANDARD, {"jitter": 0.5}).jitter == 0.5
    assert with_overrides(STANDARD, {"total_timeout": 5}).total_timeout == 5
    assert with_overrides(STANDARD, {"reply_bytes": 65_536}).reply_bytes == 65_536


def test_bounds_are_the_operators() -> None:
    narrow = Bounds(max_attempts=2, min_wait=60, max_total_timeout=10)
    with pytest.raises(PolicyError, match="at most 1 entries"):
        with_overrides(STANDARD, {"waits": [60, 60]}, narrow)
    with pytest.raises(PolicyError, match="from 60 to"):
        with_overrides(STANDARD, {"waits": [59]}, narrow)
    with pytest.raises(PolicyError, match=r"from 0\.1 to 10"):
        with_overrides(STANDARD, {"total_timeout": 11}, narrow)


@pytest.mark.parametrize(
    ("values", "path", "bound"),
    [
        ({"max_attempts": 0}, "max_attempts", "1"),
        ({"max_attempts": 1001}, "max_attempts", "1000"),
        ({"max_attempts": 5.0}, "max_attempts", "whole"),
        ({"max_window": 59}, "max_window", "60"),
        ({"min_wait": 0}, "min_wait", "0.1"),
        ({"max_jitter": 1}, "max_jitter", "0.9"),
        ({"min_timeout": 2}, "min_timeout", "1"),
        ({"max_total_timeout": 301}, "max_total_timeout", "300"),
        ({"max_reply_bytes": 2**20 + 1}, "max_reply_bytes", "1048576"),
        ({"max_deferrals": True}, "max_deferrals", "number"),
        ({"max_hops": 3}, "max_hops", "max_attempts"),
        ([], "", "object"),
    ],
)
def test_the_operators_bounds_have_bounds(values: Any, path: str, bound: str) -> None:
    with pytest.raises(PolicyError) as caught:
        bounds_of(values)
    assert caught.value.path == path
    assert bound in caught.value.message


def test_bounds_replace_the_defaults_one_by_one() -> None:
    assert bounds_of({}) == DEFAULT_BOUNDS
    assert bounds_of({"max_attempts": 5, "min_wait": 2}) == Bounds(max_attempts=5, min_wait=2.0)


def test_whatever_bounds_an_operator_chooses_something_is_allowed() -> None:
    tight = bounds_of({name: low if name.startswith("max") else high for name, (low, high) in LIMITS.items()})
    own = {
        "waits": [],
        "jitter": 0,
        "window": 60,
        "connect_timeout": 1,
        "total_timeout": 1,
        "reply_bytes": 0,
        "free_deferrals": 0,
    }
    assert with_overrides(STANDARD, own, tight).total_timeout == 1


def test_a_custom_policy_is_a_preset_with_a_name_and_overrides() -> None:
    definition = {"base": "strict", "jitter": 0, "breaker": False, "default_ordering": "subject"}
    made = custom_policy("patient", definition, PRESETS)
    assert made == replace(STRICT, name="patient", jitter=0.0, breaker=None, default_ordering="subject")
    assert definition["base"] == "strict"  # not taken out of the caller's dict


@pytest.mark.parametrize(
    ("name", "definition", "path", "bound"),
    [
        ("standard", {"base": "strict"}, "", "preset"),
        ("", {"base": "strict"}, "", "a-z"),
        ("Mine", {"base": "strict"}, "", "a-z"),
        ("1st", {"base": "strict"}, "", "a-z"),
        ("a" * 65, {"base": "strict"}, "", "64"),
        ("mine\n", {"base": "strict"}, "", "a-z"),
        (5, {"base": "strict"}, "", "a-z"),
        ("mine", {}, "base", "exponential"),
        ("mine", {"base": "mine"}, "base", "exponential"),
        ("mine", {"base": None}, "base", "exponential"),
        ("mine", "strict", "", "object"),
        ("mine", {"base": "strict", "name": "other"}, "name", "default_format"),
        ("mine", {"base": "strict", "jitter": 2}, "jitter", "0.5"),
        ("mine", {"base": "strict", "default_ordering": "lifo"}, "default_ordering", "subject"),
        ("mine", {"base": "strict", "default_format": "xml"}, "default_format", "envelope"),
        ("mine", {"base": "strict", "default_max_in_flight": 0}, "default_max_in_flight", "1"),
        ("mine", {"base": "strict", "default_max_in_flight": 1001}, "default_max_in_flight", "1000"),
        ("mine", {"base": "strict", "default_signing": []}, "default_signing", "at least one"),
        ("mine", {"base": "strict", "default_signing": ["v1", "v1"]}, "default_signing", "twice"),
        ("mine", {"base": "strict", "default_signing": ["v9"]}, "default_signing/0", "sha256"),
        ("mine", {"base": "strict", "default_signing": "v1"}, "default_signing", "list"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_refused_custom_policies(name: Any, definition: Any, path: str, bound: str) -> None:
    with pytest.raises(PolicyError) as caught:
        custom_policy(name, definition, PRESETS)
    assert caught.value.path == path
    assert bound in caught.value.message


def test_custom_policies_keep_to_the_operators_bounds() -> None:
    with pytest.raises(PolicyError, match="at most 4 entries"):
        custom_policy("mine", {"base": "quick", "waits": [1] * 5}, PRESETS, Bounds(max_attempts=5))


@pytest.mark.parametrize("places", [1, 1000])
def test_how_many_may_be_in_flight(places: int) -> None:
    made = custom_policy("mine", {"base": "standard", "default_max_in_flight": places}, PRESETS)
    assert made.default_max_in_flight == places


def test_a_name_may_be_64_long() -> None:
    assert custom_policy("a" * 64, {"base": "quick"}, PRESETS).name == "a" * 64


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_KEYS = st.sampled_from([*OVERRIDES, "auto_disable", "breaker"]) | st.text(max_size=5)
_PART_KEYS = st.sampled_from([field.name for part in (AutoDisable, Breaker) for field in fields(part)])
_VALUES = (
    _JSON
    | st.lists(st.floats(1, 9 * DAYS), max_size=35)
    | st.lists(st.integers(295, 605), max_size=5)
    | st.dictionaries(_PART_KEYS, st.integers(-1, 200) | _JSON, max_size=6)
)


@given(st.sampled_from(list(PRESETS.values())), st.dictionaries(_KEYS, _VALUES, max_size=4))
def test_any_json_gives_a_policy_within_bounds_or_a_policy_error(
    policy: Policy, overrides: dict[str, object]
) -> None:
    try:
        changed = with_overrides(policy, overrides)
    except PolicyError:
        return
    assert len(changed.waits) <= DEFAULT_BOUNDS.max_attempts - 1
    assert all(1 <= wait <= 8 * DAYS for wait in changed.waits)
    assert sum(changed.waits) <= 8 * DAYS * (1 + 1e-9)
    assert 0 <= changed.jitter <= 0.5
    assert 0 < changed.connect_timeout <= changed.total_timeout <= 60
    assert 0 <= changed.reply_bytes <= 65_536
    assert all(1 <= (limit or 1) <= 8 * DAYS for limit in (changed.window, changed.time_to_live))
    assert changed.retried | changed.retry_after_on <= set(range(300, 600))
    assert changed == with_overrides(policy, as_json(changed))
    json.dumps(as_json(changed), allow_nan=False)
