"""What every kind of destination is given and gives back."""

from dataclasses import dataclass

from ..core.attempt import AttemptResult


@dataclass(frozen=True, slots=True)
class Message:
    """One event for one endpoint, ready to send.

    `attempt_id` is the text form `att_…`; `number` counts requests from 1; `timestamp` is seconds since 1970
    at the moment of sending.
    """

    event_id: str
    event_type: str
    body: bytes
    attempt_id: str
    number: int
    timestamp: int


@dataclass(frozen=True, slots=True)
class Sent:
    """The evidence of one request: what came back, and what was signed (`body_sha256` is the raw digest)."""

    result: AttemptResult
    signature: str = ""
    body_sha256: bytes | None = None
