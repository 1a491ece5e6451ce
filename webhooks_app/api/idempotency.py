"""`Idempotency-Key`: a POST that is sent again does nothing again and gets the first one's answer.

The record is written before the action, in a transaction of its own, and completed after it: actions keep
their short transactions. A process that dies in between leaves the key in progress; after the longest time
that a request may take the next one with it acts, because then nobody can tell whether the first one did.
"""

import hashlib
import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import Error, IntegrityError, connections, transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponseBase
from django.utils.encoding import escape_uri_path
from rest_framework.exceptions import ParseError
from rest_framework.response import Response
from rest_framework.status import HTTP_503_SERVICE_UNAVAILABLE

from .. import conf
from ..actions.actor import Actor
from ..exceptions import Conflict, InvalidRequest
from ..models import IdempotencyRecord
from ..pipeline import clock
from .callers import caller_mark
from .changes import Changes
from .operations import Operation
from .problems import InProgress
from .stored_answers import repeated, stored

logger = logging.getLogger("webhooks_app.api")

HEADER: Final = "Idempotency-Key"
MAX_KEY: Final = 255
KEPT: Final = timedelta(days=30)
# What a request takes besides waiting for a receiver: locks before, and a claim's time to note the outcome.
MARGIN: Final = timedelta(seconds=30)
# Printable ASCII, no blank at its ends; the document has it too.
PATTERN: Final = "[!-~](?:[ -~]{0,253}[!-~])?"
_KEY: Final = re.compile(PATTERN)
_MAX_PATH: Final = 512

State = IdempotencyRecord.State


class Repeated(Exception):
    """The request was carried out before; `response` is its answer."""

    def __init__(self, response: HttpResponseBase) -> None:
        super().__init__()
        self.response = response


@dataclass(frozen=True, slots=True)
class Claim:
    """A key that this request holds while it acts."""

    row: IdempotencyRecord
    operation: Operation
    changes: Changes

    def settle(self, response: Response) -> None:
        """Keep the answer; forget the key when the request failed without having changed anything."""
        try:
            self._settle(response)
        except Error:
            self._settle_anew(response)

    def _settle(self, response: Response) -> None:
        if response.status_code >= 400 and not self.changes.committed:
            # Lost while it committed, perhaps: whether to act again is asked when the key counts as stuck.
            if not (self.changes.attempted and response.status_code == HTTP_503_SERVICE_UNAVAILABLE):
                self._mine().delete()
        else:
            self._mine().update(state=State.COMPLETED, **stored(response, self.operation))

    def _settle_anew(self, response: Response) -> None:
        """Try it on another connection, should the request have lost its own."""
        connection = connections[conf.current().DATABASE]
        if not connection.in_atomic_block:
            connection.close_if_unusable_or_obsolete()
        try:
            self._settle(response)
        except Error:
            # What was done is done; the caller gets the answer all the same.
            logger.exception("the answer to an idempotent request could not be kept")

    def _mine(self) -> QuerySet[IdempotencyRecord]:
        """The record, unless somebody took it over meanwhile."""
        return _records().filter(pk=self.row.pk, state=State.IN_PROGRESS, started_at=self.row.started_at)


def key_of(request: HttpRequest) -> str | None:
    """Return the request's key, None without one. Raises InvalidRequest (`invalid_idempotency_key`)."""
    key: str | None = request.META.get("HTTP_IDEMPOTENCY_KEY")
    if key is not None and not _KEY.fullmatch(key):
        raise InvalidRequest(
            [(HEADER, f"must be 1 to {MAX_KEY} printable ASCII characters")], code="invalid_idempotency_key"
        )
    return key


def claim(key: str, request: HttpRequest, actor: Actor, *, operation: Operation, payload: Any) -> Claim:
    """Take the key for this request.

    Args:
        payload: the body as parsed; two spellings of one JSON value are the same request.

    Raises:
        Repeated: with the answer that the same request got before.
        Conflict: `idempotency_conflict`, the key belongs to another request.
        InProgress: the same request is being carried out at this moment.
    """
    now = clock.db_now(conf.current().DATABASE)
    asked = _columns(request, payload, now)
    found = _records().filter(caller=caller_mark(actor), key=key).first()
    if found is None:
        row = _insert(IdempotencyRecord(caller=caller_mark(actor), key=key, **asked))
    elif found.expires_at <= now:
        row = _take_over(found, asked)
    elif found.fingerprint != asked["fingerprint"]:
        raise Conflict("the key was used for another request", code="idempotency_conflict")
    elif found.state == State.COMPLETED:
        raise Repeated(repeated(found, request, operation))
    elif now - found.started_at < longest():
        raise InProgress
    else:
        row = _take_over(found, asked)
    return Claim(row, operation, Changes(conf.current().DATABASE))


def longest() -> timedelta:
    """Return the longest time that a request may take: a test waits for its receiver."""
    timeouts = [policy.total_timeout for policy in conf.policies().values()]
    return timedelta(seconds=max(conf.current().POLICY_BOUNDS.max_total_timeout, *timeouts)) + MARGIN


def _columns(request: HttpRequest, payload: Any, now: datetime) -> dict[str, Any]:
    path = escape_uri_path(request.path)
    return {
        "method": request.method,
        "path": path[:_MAX_PATH],
        "fingerprint": _fingerprint([request.method, path, request.META.get("QUERY_STRING", ""), payload]),
        "state": State.IN_PROGRESS,
        "started_at": now,
        "expires_at": now + KEPT,
    }


def _fingerprint(request: list[Any]) -> str:
    try:
        text = json.dumps(request, sort_keys=True, separators=(",", ":"))
    except RecursionError:
        raise ParseError("the body is nested too deeply") from None
    return hashlib.sha256(text.encode()).hexdigest()


def _insert(row: IdempotencyRecord) -> IdempotencyRecord:
    alias = conf.current().DATABASE
    try:
        with transaction.atomic(using=alias):
            row.save(using=alias, force_insert=True)
    except IntegrityError:
        raise InProgress from None
    return row


def _take_over(found: IdempotencyRecord, asked: Mapping[str, Any]) -> IdempotencyRecord:
    """Begin anew with a record that is stuck or expired; one of those who try at once gets it."""
    same = _records().filter(pk=found.pk, started_at=found.started_at, state=found.state)
    if not same.update(**asked, status=None, headers={}, body=None):
        raise InProgress
    found.started_at = asked["started_at"]
    return found


def _records() -> QuerySet[IdempotencyRecord]:
    return IdempotencyRecord.objects.using(conf.current().DATABASE)
