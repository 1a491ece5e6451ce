"""What tasks call: hand a ticket to the engine and wait for it."""

from .engine import engine
from .tickets import Deliver, FanOut, Tick, Ticket


def fan_out() -> None:
    """Turn committed outbox entries into deliveries, for at most a slice of time."""
    _run(FanOut())


def deliver(endpoint_ids: list[int], *, slow: bool = False) -> None:
    """Send what one lease takes of what is due there; the rest, and what hangs, stays with the engine."""
    _run(Deliver(endpoint_ids, slow=slow))


def tick() -> None:
    """Find what a lost hint left behind and wake it."""
    _run(Tick())


def _run(ticket: Ticket) -> None:
    engine().submit(ticket)
    ticket.wait()
