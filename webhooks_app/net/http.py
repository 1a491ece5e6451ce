"""The `requests` transport: one request over a guarded connection, and the facts about it."""

import os
import socket
from functools import lru_cache
from typing import Any

import urllib3

from ..core.attempt import AttemptResult
from ..core.classify import error_of
from ..core.ssrf import Target
from . import guard, tls
from .adapter import GuardedAdapter
from .errors import failure_of
from .limits import Budget, running
from .options import NetOptions
from .prepare import Prepared, prepared
from .replies import kept_headers, read_body
from .transport import Request, Transport

_KNOWN_URLS = 4_096


class HttpTransport:
    """Sends requests with `requests`; thread-safe, and rebuilt in a forked process."""

    def __init__(self, options: NetOptions) -> None:
        self._options = options
        self._target = lru_cache(maxsize=_KNOWN_URLS)(self._check)
        self._pid = os.getpid()
        self._adapter = GuardedAdapter(options)
        self._inherited: list[GuardedAdapter] = []

    def post(self, request: Request) -> AttemptResult:
        """Send one request; whatever the network does is a result, never an exception.

        A redirect is an answer like any other, and never followed. A kept connection that dies before
        the first byte of a reply is replaced once, within the same attempt.
        """
        budget = Budget(request, self._options)
        token = running.set(budget)
        try:
            return self._attempt(request, budget)
        except Exception as error:
            error_code, detail = failure_of(error, budget)
            return AttemptResult(
                error=error_code, detail=detail, duration_ms=budget.duration_ms(), target_ip=budget.peer
            )
        finally:
            running.reset(token)

    def close(self) -> None:
        """Close the idle connections."""
        self._own_adapter().close()

    def _check(self, url: str) -> Target:
        return guard.target_of(url, self._options)

    def _attempt(self, request: Request, budget: Budget) -> AttemptResult:
        target = self._target(request.url)
        budget.path = target.path
        raw = self._exchange(prepared(request, target), budget)
        headers = kept_headers(raw.headers)
        body = read_body(raw, budget, request.reply_bytes)
        return AttemptResult(
            error=error_of(raw.status),
            http_status=raw.status,
            detail=body.note,
            duration_ms=budget.duration_ms(),
            target_ip=budget.peer,
            headers=headers,
            body=body.data,
            body_complete=body.complete,
        )

    def _exchange(self, message: Prepared, budget: Budget) -> Any:
        adapter = self._own_adapter()
        try:
            return _send(adapter, message, budget)
        except Exception as error:
            if not self._was_stale(error, budget):
                raise
        budget.start_afresh()
        return _send(adapter, message, budget)

    def _was_stale(self, error: Exception, budget: Budget) -> bool:
        """Whether a kept connection turned out to be closed already: the receiver has answered nothing."""
        return budget.reused and budget.received == 0 and failure_of(error, budget).error == "reset"

    def _own_adapter(self) -> GuardedAdapter:
        """Two processes must not share a connection. The parent's adapter is kept: its locks may be held."""
        if self._pid != os.getpid():
            self._inherited.append(self._adapter)
            self._adapter = GuardedAdapter(self._options)
            self._pid = os.getpid()
        return self._adapter


@lru_cache(maxsize=64)
def _timeout(seconds: float) -> urllib3.Timeout:
    """Only a second line of defence: the guarded sockets keep the time."""
    return urllib3.Timeout(connect=seconds, read=seconds)


def _send(adapter: GuardedAdapter, message: Prepared, budget: Budget) -> Any:
    timeout: Any = _timeout(budget.total_timeout)
    return adapter.send(message, stream=True, timeout=timeout).raw


def build_transport(options: NetOptions) -> Transport:
    """Return the transport for these options.

    Raises OSError when the CA bundle cannot be read, and RuntimeError where gevent or eventlet replaced the
    sockets: theirs wait for each step of a handshake or read anew, so a dripping receiver is not bounded.
    """
    if socket.socket.__module__.startswith(("gevent", "eventlet")):
        raise RuntimeError("webhooks cannot be sent from a gevent or eventlet worker: use prefork or threads")
    if "https" in options.rules.schemes:
        tls.client_context(options.ca_bundle)
    return HttpTransport(options)
