"""Lanes: one for all, one per owner, or none."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from webhooks_app.core.ordering import FIFO, MAX_LANE, NONE, ORDERINGS, SUBJECT, lane_of

Owner = tuple[str | None, str | None, str | None]
OWNERS = st.tuples(
    st.none() | st.text(max_size=130),
    st.none() | st.text(max_size=70),
    st.text(max_size=130),
)


def lane(ordering: str, owner: Owner) -> str | None:
    return lane_of(ordering, tenant_id=owner[0], owner_kind=owner[1], owner_id=owner[2])


def test_the_orderings() -> None:
    assert ORDERINGS == ("none", "fifo", "subject")


@pytest.mark.parametrize("owner", [("t", "order", "1"), (None, None, None)])
def test_unordered_and_fifo_do_not_look_at_the_owner(
    owner: tuple[str | None, str | None, str | None],
) -> None:
    assert lane(NONE, owner) is None
    assert lane(FIFO, owner) == ""


def test_an_event_without_owner_has_no_lane() -> None:
    assert lane(SUBJECT, ("t", "order", None)) is None
    assert lane(SUBJECT, (None, None, None)) is None


def test_lanes_are_the_same_for_ever() -> None:
    """They are stored: another spelling would let an owner's events overtake each other."""
    assert lane(SUBJECT, ("acme", "order", "17")) == "4:acme5:order2:17"
    assert lane(SUBJECT, (None, "order", "17")) == "-5:order2:17"
    assert lane(SUBJECT, ("", None, "")) == "0:-0:"
    long = lane(SUBJECT, ("t" * 128, "k" * 64, "i" * 128))
    assert long == "#a082192922aa082f8365121f9cd9a844f83013427d9b7be0619c319cf7dba39e"


def test_only_what_is_too_long_is_hashed() -> None:
    fits = lane(SUBJECT, ("t" * 100, "k", "i" * 90))
    longer = lane(SUBJECT, ("t" * 100, "k", "i" * 91))
    assert fits is not None
    assert longer is not None
    assert (len(fits), fits[0]) == (MAX_LANE, "1")
    assert (len(longer), longer[0]) == (65, "#")


@given(OWNERS, OWNERS)
@example(("a", "b1:c", "d"), ("a", "b", "c1:d"))
@example(("1:a", None, "x"), (None, "1:a", "x"))
@example(("", "a", "b"), (None, "a", "b"))
@example(("\ud800", "a", "b" * 200), ("\ud801", "a", "b" * 200))
def test_two_owners_never_share_a_lane(one: Owner, other: Owner) -> None:
    first, second = lane(SUBJECT, one), lane(SUBJECT, other)
    assert (first == second) == (one == other)
    assert first
    assert len(first) <= MAX_LANE
