"""Who gets an event; nothing crosses a tenant's, partner's or environment's border."""

import pickle
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhooks_app.core.matching import (
    NEVER_FANNED_OUT,
    EventFacts,
    PatternError,
    Subscription,
    check_patterns,
    wants,
)

EVENT = EventFacts("order.shipped", "t1", "p1", "i1", "live")
TENANT = Subscription("tenant", "t1", None, "live", ("*",), None)
PARTNER = Subscription("partner", None, "p1", "live", ("*",), None)
PLATFORM = Subscription("platform", None, None, "live", ("*",), None)


@pytest.mark.parametrize(
    ("changes", "tenant", "partner", "platform"),
    [
        ({}, True, True, True),
        ({"tenant_id": "t2"}, False, True, True),
        ({"partner_id": "p2"}, True, False, True),
        ({"partner_id": None}, True, False, True),
        ({"tenant_id": None, "partner_id": None}, False, False, True),
        ({"tenant_id": None}, False, True, True),
        ({"tenant_id": "", "partner_id": ""}, False, False, True),
        ({"tenant_id": "T1", "partner_id": "P1"}, False, False, True),
        ({"tenant_id": "p1", "partner_id": "t1"}, False, False, True),
        ({"environment": "test"}, False, False, False),
        ({"environment": ""}, False, False, False),
    ],
    ids=repr,
)
def test_scopes(changes: dict[str, Any], tenant: bool, partner: bool, platform: bool) -> None:
    event = replace(EVENT, **changes)
    assert [wants(sub, event) for sub in (TENANT, PARTNER, PLATFORM)] == [tenant, partner, platform]


@pytest.mark.parametrize("scope", ["tenant", "partner", "platform", "", "all", None])
@pytest.mark.parametrize(
    ("tenant_id", "partner_id"), [("t1", "p1"), (None, None), ("", ""), ("t1", None), (None, "p1")], ids=repr
)
def test_a_scope_that_contradicts_its_ids_sees_nothing(
    scope: Any, tenant_id: str | None, partner_id: str | None
) -> None:
    sub = Subscription(scope, tenant_id, partner_id, "live", ("*",), None)
    sound = {
        "tenant": bool(tenant_id) and not partner_id,
        "partner": bool(partner_id) and not tenant_id,
        "platform": not tenant_id and not partner_id,
    }
    assert wants(sub, EVENT) is sound.get(scope, False)
    nobody = replace(EVENT, tenant_id=tenant_id and "other", partner_id=partner_id and "other")
    assert wants(sub, nobody) is (scope == "platform" and sound["platform"])


def in_order(value: Any) -> str:
    """Return how a case is called, in every process alike: a set has no order of its own."""
    return repr(sorted(value, key=repr) if isinstance(value, set) else value)


@pytest.mark.parametrize(
    ("events", "matching"),
    [
        ((), set()),
        (("*",), {"order", "order.shipped", "order.line.added", "orders.x", "order_.x"}),
        (("order.shipped",), {"order.shipped"}),
        (("order",), {"order"}),
        (("order.*",), {"order.shipped", "order.line.added"}),
        (("order.line.*", "order"), {"order.line.added", "order"}),
        (("orders.*", "order.shipped"), {"orders.x", "order.shipped"}),
        (("ORDER.shipped", "order.ship", "shipped", "order.shipped.x", "*.shipped", "order*", "o*"), set()),
    ],
    ids=in_order,
)
def test_event_types(events: tuple[str, ...], matching: set[str]) -> None:
    types = ("order", "order.shipped", "order.line.added", "orders.x", "order_.x")
    sub = replace(PLATFORM, events=events)
    assert {name for name in types if wants(sub, replace(EVENT, type=name))} == matching


@pytest.mark.parametrize(
    ("filter_", "matching"),
    [
        (None, {"i1", "i2", None, ""}),
        ((), set()),
        (("i1",), {"i1"}),
        (("i1", "i2"), {"i1", "i2"}),
        (("",), set()),
    ],
    ids=in_order,
)
def test_identities(filter_: tuple[str, ...] | None, matching: set[str | None]) -> None:  # B148
    sub = replace(TENANT, identity_ids=filter_)
    ids = ("i1", "i2", None, "")
    assert {each for each in ids if wants(sub, replace(EVENT, identity_id=each))} == matching


@pytest.mark.parametrize("name", ["webhook.test", "webhook.ping"])
@pytest.mark.parametrize("events", [("*",), ("webhook.*",), ("webhook.test", "webhook.ping")])
def test_test_and_ping_are_never_fanned_out(name: str, events: tuple[str, ...]) -> None:
    assert name in NEVER_FANNED_OUT
    for sub in (TENANT, PARTNER, PLATFORM):
        assert not wants(replace(sub, events=events), replace(EVENT, type=name))


def test_disabled_is_told_to_partner_and_platform_but_not_to_the_tenant() -> None:
    event = replace(EVENT, type="webhook.disabled", identity_id=None, about="whk_9")
    assert [wants(sub, event) for sub in (TENANT, PARTNER, PLATFORM)] == [False, True, True]
    assert wants(TENANT, replace(event, notify_tenant=True))


def test_disabled_is_never_told_to_the_endpoint_itself() -> None:
    event = replace(EVENT, type="webhook.disabled", about="whk_1", notify_tenant=True)
    for sub in (TENANT, PARTNER, PLATFORM):
        assert not wants(replace(sub, endpoint_id="whk_1"), event)
        assert wants(replace(sub, endpoint_id="whk_2"), event)


def test_the_compiled_filters_survive_replace_and_pickle_and_count_for_nothing() -> None:
    sub = replace(TENANT, events=("order.*", "a"), identity_ids=("i1",))
    copy = pickle.loads(pickle.dumps(sub))
    assert copy == sub
    assert wants(copy, EVENT)
    assert hash(copy) == hash(sub)
    assert "_names" not in repr(sub)
    assert not wants(replace(sub, events=("b",)), EVENT)


IDS = st.sampled_from([None, "", "a", "b"])
SUBS = st.builds(
    Subscription,
    st.sampled_from(["tenant", "partner", "platform", "other"]),
    IDS,
    IDS,
    st.sampled_from(["live", "test"]),
    st.lists(st.sampled_from(["*", "a.b", "a.*", "webhook.test"]), max_size=3).map(tuple),
    st.none() | st.lists(st.sampled_from(["x", "y"]), max_size=2).map(tuple),
)
EVENTS = st.builds(
    EventFacts,
    st.sampled_from(["a.b", "a.c", "b", "webhook.test", "webhook.disabled"]),
    IDS,
    IDS,
    st.sampled_from([None, "", "x", "y"]),
    st.sampled_from(["live", "test"]),
)


@given(SUBS, EVENTS)
def test_whatever_matches_is_allowed_to(sub: Subscription, event: EventFacts) -> None:
    if not wants(sub, event):
        return
    assert sub.environment == event.environment
    assert event.type != "webhook.test"
    assert sub.identity_ids is None or event.identity_id in sub.identity_ids
    assert {"*", event.type, event.type.split(".")[0] + ".*"} & set(sub.events)
    owner = {"tenant": (event.tenant_id, None), "partner": (None, event.partner_id), "platform": (None, None)}
    assert (sub.tenant_id or None, sub.partner_id or None) == owner[sub.scope]
    assert sub.scope == "platform" or any(owner[sub.scope])


@given(SUBS, EVENTS)
def test_no_filter_at_all_never_widens_the_scope(sub: Subscription, event: EventFacts) -> None:
    if wants(sub, event):
        assert wants(replace(sub, events=("*",), identity_ids=None), event)


@pytest.mark.parametrize(
    "events",
    [
        [],
        ["*"],
        ["order.shipped"],
        ["order.*", "order.shipped", "order"],
        ("a", "A", "_", "a_1.B2.*"),
        ["a" * 128],
        ["a" * 126 + ".*"],
        [f"n{number}" for number in range(100)],
    ],
    ids=lambda events: repr(events)[:30],
)
def test_good_patterns(events: Any) -> None:
    check_patterns(events)


@pytest.mark.parametrize(
    ("events", "path"),
    [
        (None, "events"),
        ("*", "events"),
        ({"*": 1}, "events"),
        ([f"n{number}" for number in range(101)], "events"),
        (["a", "*"], "events/1"),
        (["*", "a"], "events/0"),
        (["*", "*"], "events/0"),
        (["a", "b", "a"], "events/2"),
        (["a.*", "a.*"], "events/1"),
        (["a", None], "events/1"),
        ([["a"]], "events/0"),
        ([1], "events/0"),
        ([""], "events/0"),
        ([" a"], "events/0"),
        (["a\n"], "events/0"),
        (["a..b"], "events/0"),
        ([".a"], "events/0"),
        (["a."], "events/0"),
        ([".*"], "events/0"),
        (["*.a"], "events/0"),
        (["a.*.b"], "events/0"),
        (["a.**"], "events/0"),
        (["a*"], "events/0"),
        (["a-b"], "events/0"),
        (["\u00e4"], "events/0"),
        (["\u0661"], "events/0"),
        (["a.*.*"], "events/0"),
        (["a" * 129], "events/0"),
        (["a" * 127 + ".*"], "events/0"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_bad_patterns(events: Any, path: str) -> None:
    with pytest.raises(PatternError) as caught:
        check_patterns(events)
    assert caught.value.path == path
    assert str(caught.value) == f"{path}: {caught.value.message}"


@given(st.lists(st.text(max_size=6) | st.from_regex(r"\A[a-c]{1,2}(\.[a-c])?(\.\*)?\Z"), max_size=5))
def test_checked_patterns_match_nothing_but_what_they_say(events: list[str]) -> None:
    try:
        check_patterns(events)
    except PatternError:
        return
    sub = replace(PLATFORM, events=tuple(events))
    for name in ("a", "a.b", "ab.c"):
        said = any(
            pattern in {"*", name} or (pattern.endswith(".*") and name.startswith(pattern[:-1]))
            for pattern in events
        )
        assert wants(sub, replace(EVENT, type=name)) is said
