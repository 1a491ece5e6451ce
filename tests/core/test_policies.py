"""`standard` as documented, and overrides within bounds."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhooks_app.core.policies import (
    DEFAULT_BOUNDS,
    PRESETS,
    STANDARD,
    AutoDisable,
    Bounds,
    PolicyError,
    with_overrides,
)

DAYS = 86_400


def test_standard_as_documented() -> None:
    assert PRESETS["standard"] is STANDARD
    assert STANDARD.max_attempts == 13
    assert (STANDARD.jitter, STANDARD.jitter_kind, STANDARD.max_wait) == (0.1, "random", DAYS)
    assert (STANDARD.connect_timeout, STANDARD.total_timeout, STANDARD.reply_bytes) == (5, 15, 4096)
    assert STANDARD.auto_disable == AutoDisable(failures=100, span=DAYS)
    assert (STANDARD.default_signing, STANDARD.default_format) == (("v1",), "envelope")
    assert (STANDARD.replay_id, STANDARD.notify_tenant, STANDARD.breaker) == ("same", False, None)
    assert (STANDARD.window, STANDARD.free_deferrals) == (None, 0)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_keeps_to_the_default_bounds(name: str) -> None:
    preset = PRESETS[name]
    own = {
        "waits": list(preset.waits),
        "total_timeout": preset.total_timeout,
        "reply_bytes": preset.reply_bytes,
    }
    assert with_overrides(preset, own | {"jitter": preset.jitter}) == preset


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
        ({"retried": [500]}, "retried", "waits"),
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


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_KEYS = st.sampled_from(["waits", "jitter", "connect_timeout", "total_timeout", "reply_bytes"]) | st.text(
    max_size=5
)


@given(st.dictionaries(_KEYS, _JSON | st.lists(st.floats(1, 9 * DAYS), max_size=35), max_size=4))
def test_any_json_gives_a_policy_within_bounds_or_a_policy_error(overrides: dict[str, object]) -> None:
    try:
        changed = with_overrides(STANDARD, overrides)
    except PolicyError:
        return
    assert len(changed.waits) <= DEFAULT_BOUNDS.max_attempts - 1
    assert all(1 <= wait <= 8 * DAYS for wait in changed.waits)
    assert sum(changed.waits) <= 8 * DAYS * (1 + 1e-9)
    assert 0 <= changed.jitter <= 0.5
    assert 0 < changed.connect_timeout <= changed.total_timeout <= 60
    assert 0 <= changed.reply_bytes <= 65_536
    json.dumps([changed.waits, changed.jitter, changed.total_timeout], allow_nan=False)
