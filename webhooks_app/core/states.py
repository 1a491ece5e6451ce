"""The states of a delivery, the moves between them, and the error codes."""

from collections.abc import Mapping
from enum import StrEnum


class State(StrEnum):
    """Where a delivery stands. Every member but ``PENDING`` is an end."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED_PERMANENT = "failed_permanent"
    EXHAUSTED = "exhausted"
    EXPIRED = "expired"
    WINDOW_EXCEEDED = "window_exceeded"
    DEAD_LETTERED = "dead_lettered"
    CANCELLED = "cancelled"


PENDING = State.PENDING
DELIVERED = State.DELIVERED
FAILED_PERMANENT = State.FAILED_PERMANENT
EXHAUSTED = State.EXHAUSTED
EXPIRED = State.EXPIRED
WINDOW_EXCEEDED = State.WINDOW_EXCEEDED
DEAD_LETTERED = State.DEAD_LETTERED
CANCELLED = State.CANCELLED

ENDED: frozenset[State] = frozenset(State) - {PENDING}
DEAD: frozenset[State] = ENDED - {DELIVERED}

# From pending anything may follow. An ended delivery is re-opened by a replay, delivered by a resend that
# succeeds, and stays what it was after a resend that fails.
MOVES: Mapping[State, frozenset[State]] = {
    PENDING: frozenset(State),
    **{ended: frozenset({ended, PENDING, DELIVERED}) for ended in ENDED},
}

ERRORS: frozenset[str] = frozenset(
    {
        "timeout",
        "dns",
        "tls",
        "connect",
        "reset",
        "redirect",
        "status_4xx",
        "status_410",
        "status_5xx",
        "ssrf_blocked",
        "invalid_url",
        "invalid_response",
        "secret_unavailable",
        "event_unavailable",
        "endpoint_disabled",
        "endpoint_deleted",
        "payload_too_large",
        "aborted_by_consumer",
        "worker_lost",
        "receipt_missing",
        "receipt_mismatch",
    }
)


class IllegalMove(ValueError):
    """A delivery was to go from ``old`` to ``new``, which the table does not allow."""

    def __init__(self, old: str, new: str) -> None:
        super().__init__(f"a delivery cannot go from {str(old)!r} to {str(new)!r}")
        self.old = old
        self.new = new


def move(old: str, new: str) -> State:
    """Return the state ``new`` when a delivery in ``old`` may go there, else raise ``IllegalMove``.

    Unknown words are illegal too.
    """
    try:
        target = State(new)
        allowed = MOVES[State(old)]
    except ValueError:
        raise IllegalMove(old, new) from None
    if target not in allowed:
        raise IllegalMove(old, new)
    return target
