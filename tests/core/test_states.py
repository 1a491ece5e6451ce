"""Delivery states: one table, nothing outside of it."""

import json
import sqlite3

import pytest

from webhooks_app.core import states
from webhooks_app.core.states import DEAD, ENDED, ERRORS, IllegalMove, State, move

PENDING, DELIVERED = State.PENDING, State.DELIVERED


def test_the_words_are_the_public_ones() -> None:
    assert [str(state) for state in State] == [
        "pending",
        "delivered",
        "failed_permanent",
        "exhausted",
        "expired",
        "window_exceeded",
        "dead_lettered",
        "cancelled",
    ]
    assert all(getattr(states, state.name) is state for state in State)


def test_every_state_but_pending_is_an_end_and_all_but_delivered_are_dead() -> None:
    assert set(State) - ENDED == {PENDING}
    assert {DELIVERED} == ENDED - DEAD


@pytest.mark.parametrize("new", State)
def test_from_pending_anything_may_follow(new: State) -> None:
    assert move(PENDING, new) is new


@pytest.mark.parametrize("old", sorted(ENDED))
def test_an_ended_delivery_is_reopened_or_delivered_by_hand_and_nothing_else(old: State) -> None:
    for new in State:
        if new in {old, PENDING, DELIVERED}:
            assert move(old, new) is new
        else:
            with pytest.raises(IllegalMove) as caught:
                move(old, new)
            assert (caught.value.old, caught.value.new) == (old, new)


@pytest.mark.parametrize(
    ("old", "new"), [("pending", "sent"), ("sent", "pending"), ("", ""), ("PENDING", "pending")]
)
def test_unknown_words_are_illegal(old: str, new: str) -> None:
    with pytest.raises(IllegalMove):
        move(old, new)


def test_plain_strings_are_taken() -> None:
    assert move("pending", "delivered") is DELIVERED


def test_a_state_is_a_plain_string_to_sql_and_json() -> None:
    assert sqlite3.connect(":memory:").execute("SELECT ?", (State.EXPIRED,)).fetchone() == ("expired",)
    assert json.dumps(State.EXPIRED) == '"expired"'
    assert f"{State.EXPIRED}" == "expired"


def test_the_error_codes_are_the_documented_ones() -> None:
    documented = """timeout dns tls connect reset redirect status_4xx status_410 status_5xx ssrf_blocked
    invalid_url invalid_response secret_unavailable event_unavailable endpoint_disabled endpoint_deleted
    payload_too_large aborted_by_consumer worker_lost receipt_missing receipt_mismatch"""
    assert set(documented.split()) == ERRORS
