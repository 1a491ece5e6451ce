"""The `https` destination: one signed request per event. Never raises; every fault is a result."""

import hashlib
import os
import threading
from datetime import UTC, datetime

from .. import __version__
from ..core.attempt import AttemptResult
from ..core.formats import Stamp, render, request_headers, user_agent
from ..core.headers import HeaderError
from ..core.signing import SigningError, sign
from ..net.http import build_transport
from ..net.transport import Request, Transport
from .base import Message, Sent
from .config import EndpointConfig
from .network import net_options

_AGENT = user_agent(__version__)


def send(config: EndpointConfig, message: Message, *, total_timeout: float | None = None) -> Sent:
    """Sign and send one message.

    Args:
        config: the endpoint; a `fault` in it is returned without a request.
        message: the event and the marks of this attempt.
        total_timeout: seconds, when less time is left than the policy gives.

    Returns:
        Sent; `result.error` is an error code, and empty after a 2xx.
    """
    if config.fault:
        return Sent(AttemptResult(error=config.fault))
    content = render("envelope", message.body)
    moment = datetime.fromtimestamp(message.timestamp, UTC)
    try:
        signature = sign(
            config.signing_keys(moment), id=message.event_id, timestamp=message.timestamp, body=content.body
        )
        headers = request_headers(
            _stamp(config, message, signature),
            content_type=content.content_type,
            user_agent=_AGENT,
            custom=config.headers,
        )
    except SigningError as error:
        return Sent(AttemptResult(error="secret_unavailable", detail=error.code))
    except HeaderError:
        return Sent(AttemptResult(error="invalid_url", detail="header"))
    request = Request(
        url=config.url,
        method=config.method,
        headers=headers,
        body=content.body,
        connect_timeout=config.policy.connect_timeout,
        total_timeout=total_timeout or config.policy.total_timeout,
        reply_bytes=config.policy.reply_bytes,
    )
    return Sent(transport().post(request), signature, hashlib.sha256(content.body).digest())


def _stamp(config: EndpointConfig, message: Message, signature: str) -> Stamp:
    return Stamp(
        event_id=message.event_id,
        event_type=message.event_type,
        endpoint_id=config.public_id,
        attempt_id=message.attempt_id,
        attempt=message.number,
        timestamp=message.timestamp,
        signature=signature,
    )


_transport: Transport | None = None
_making = threading.Lock()


def transport() -> Transport:
    """Return the process's transport."""
    global _transport
    if _transport is None:
        with _making:
            if _transport is None:
                _transport = build_transport(net_options())
    return _transport


def reset() -> None:
    """Forget the transport; its settings changed."""
    global _transport
    _transport = None


def _after_fork() -> None:
    """Another thread may have held the lock. The transport stays: it notices a fork itself."""
    global _making
    _making = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
