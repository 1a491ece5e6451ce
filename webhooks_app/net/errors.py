"""What an exception of an attempt means: an error code and one machine word of detail."""

import errno
import http.client
import ssl
from collections.abc import Iterator
from typing import NamedTuple

import requests
import urllib3

from ..core.ssrf import Refused
from . import limits
from .limits import Budget, TooMuchData
from .prepare import BadRequestError
from .resolver import ResolutionError


class Failure(NamedTuple):
    """An error code and its detail, as in `AttemptResult`."""

    error: str
    detail: str


# X.509 verification results of OpenSSL (x509_vfy.h).
_CERTIFICATE = {
    9: "not_yet_valid",
    10: "expired",
    18: "self_signed",
    19: "self_signed",
    20: "unknown_ca",
    21: "unknown_ca",
    62: "wrong_host",
    64: "wrong_host",
}
_CLOSED = (ssl.SSLEOFError, ssl.SSLZeroReturnError, http.client.RemoteDisconnected)
_RESET = (ConnectionResetError, ConnectionAbortedError, BrokenPipeError)
_UNREACHABLE = frozenset({errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EADDRNOTAVAIL})
_NOT_OPEN = frozenset({limits.DNS, limits.CONNECT, limits.TLS})


def failure_of(error: BaseException, budget: Budget) -> Failure:
    """Classify what an attempt raised; anything that is no failure of the network is raised again.

    What is in the chain of exceptions decides, then the phase: urllib3 makes a refused connection look like
    a timeout, and a handshake that times out like a read.
    """
    chain = list(_chain(error, budget.foreign))
    for rule in (_of_ours, _of_tls, _of_system, _of_libraries):
        for link in chain:
            failure = rule(link, budget.phase)
            if failure is not None:
                return failure
    raise error


def _chain(error: BaseException, foreign: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = {id(foreign)}
    waiting: list[object] = [error]
    while waiting:
        link = waiting.pop(0)
        if isinstance(link, BaseException) and id(link) not in seen:
            seen.add(id(link))
            yield link
            waiting += [getattr(link, "reason", None), link.__cause__, link.__context__, *link.args]


def _of_ours(error: BaseException, phase: str) -> Failure | None:
    if isinstance(error, Refused):
        return Failure(error.code, error.rule)
    if isinstance(error, BadRequestError):
        return Failure("invalid_url", error.detail)
    if isinstance(error, ResolutionError):
        return Failure("dns", error.detail)
    return Failure("invalid_response", "too_large") if isinstance(error, TooMuchData) else None


def _of_tls(error: BaseException, phase: str) -> Failure | None:
    if isinstance(error, ssl.SSLCertVerificationError):
        return Failure("tls", _CERTIFICATE.get(error.verify_code, f"certificate_{error.verify_code}"))
    if isinstance(error, ssl.SSLError) and not isinstance(error, _CLOSED):
        return Failure("tls", (getattr(error, "reason", None) or "failed").lower())
    return None


def _of_system(error: BaseException, phase: str) -> Failure | None:
    if isinstance(error, TimeoutError):
        return Failure(phase, f"{phase}_timeout") if phase in _NOT_OPEN else Failure("timeout", phase)
    if isinstance(error, ConnectionRefusedError):
        return Failure("connect", "refused")
    if isinstance(error, _CLOSED + _RESET):
        how = "closed" if isinstance(error, _CLOSED) else "reset"
        return Failure(phase if phase in _NOT_OPEN else "reset", how)
    if isinstance(error, http.client.HTTPException):
        return Failure("invalid_response", _what_is_wrong(error))
    if isinstance(error, OSError) and error.errno in _UNREACHABLE:
        return Failure("connect", "unreachable")
    return None


def _what_is_wrong(error: http.client.HTTPException) -> str:
    if isinstance(error, http.client.IncompleteRead):
        return "incomplete"
    if isinstance(error, http.client.BadStatusLine | http.client.UnknownProtocol):
        return "bad_status"
    if isinstance(error, http.client.LineTooLong):
        return "line_too_long"
    return "too_many_headers" if type(error) is http.client.HTTPException else "malformed"


def _of_libraries(error: BaseException, phase: str) -> Failure | None:
    """What is left: bare exceptions of the libraries, as tests that mock the adapter raise them."""
    if isinstance(error, requests.ConnectTimeout):
        return Failure("connect", "connect_timeout")
    if isinstance(error, requests.Timeout):
        return Failure("timeout", limits.WAIT)
    if isinstance(error, requests.exceptions.SSLError):
        return Failure("tls", "failed")
    if isinstance(error, requests.ConnectionError) or type(error) is OSError:
        return Failure(phase if phase in _NOT_OPEN else "reset", "failed")
    if isinstance(error, urllib3.exceptions.HTTPError | OSError | ValueError):
        return Failure("invalid_response", "malformed")
    return None
