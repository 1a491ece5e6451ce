"""What a result means: taken, worth another attempt, or final."""

import enum

from .attempt import AttemptResult
from .policies import Policy

CONTROL_HEADER = "webhook-delivery"
ABORT = "abort-message"
DISABLE = "disable"

STATUS_ERRORS = frozenset({"redirect", "status_4xx", "status_410", "status_5xx"})
REFUSED = frozenset({"ssrf_blocked", "invalid_url"})
# Nothing a repetition could change, whatever the policy.
HOPELESS = frozenset({"event_unavailable", "endpoint_disabled", "endpoint_deleted", "payload_too_large"})
# Faults on our side, which say nothing about the receiver.
OURS = HOPELESS | {"secret_unavailable", "worker_lost"}

_ERROR_OF_CLASS = {2: "", 3: "redirect", 4: "status_4xx", 5: "status_5xx"}


class Verdict(enum.Enum):
    """The three things a result can mean for its delivery."""

    SUCCESS = enum.auto()
    RETRY = enum.auto()
    PERMANENT = enum.auto()


def error_of(status: int) -> str:
    """Return the error code for an HTTP status, ``""`` for a 2xx.

    Any 2xx is success, 3xx is failure and never followed (Standard Webhooks, "Delivery success and
    failure"). A 1xx is not final and anything over 599 no HTTP status: both are ``invalid_response``.
    """
    if status == 410:
        return "status_410"
    return _ERROR_OF_CLASS.get(status // 100, "invalid_response")


def control_of(result: AttemptResult, policy: Policy) -> str | None:
    """Return what the consumer asks for in the reply header ``webhook-delivery``.

    ``"abort-message"``: no further attempt for this event; ``"disable"``: no further event. ``None`` when
    the policy does not honour the header, the reply was no proper one, or it says anything else. On a 2xx
    only ``disable`` is returned: the message was taken, there is nothing to abort.
    """
    if not policy.honours_control or result.http_status is None or result.error == "invalid_response":
        return None
    asked = (result.header(CONTROL_HEADER) or "").lower()
    if asked == DISABLE or (asked == ABORT and not result.ok):
        return asked
    return None


def verdict(result: AttemptResult, policy: Policy) -> Verdict:
    """Judge ``result`` by ``policy``.

    Statuses follow ``policy.retried``, refused addresses ``policy.retry_refused``, and an abort of the
    consumer is final. Everything without a proper HTTP reply (timeouts, resets, DNS, TLS, an invalid
    response) is tried again under every policy.
    """
    if result.ok:
        return Verdict.SUCCESS
    if result.error in STATUS_ERRORS:
        again = result.http_status in policy.retried
    elif result.error in REFUSED:
        again = policy.retry_refused
    else:
        again = result.error not in HOPELESS
    again = again and control_of(result, policy) != ABORT
    return Verdict.RETRY if again else Verdict.PERMANENT
