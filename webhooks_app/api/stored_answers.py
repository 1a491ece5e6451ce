"""What is kept of an answer for those who repeat the request, and how it becomes an answer again.

A reply may hold the payload it answers, so only the attempt keeps it: what forgets it there, forgets it.
"""

import json
from collections.abc import Mapping
from copy import copy
from typing import Any, Final
from uuid import UUID

from django.http import HttpRequest, QueryDict
from django.urls import get_script_prefix, resolve, reverse
from rest_framework.response import Response

from .. import conf
from ..core.ids import parse_id
from ..models import Attempt as AttemptRow
from ..models import IdempotencyRecord
from .operations import Operation
from .problems import MEDIA_TYPE
from .rendering import ApiRenderer
from .serializers.attempt import Attempt

REPLAYED: Final = "Idempotency-Replayed"
SECRET_REPLAYED: Final = "secret_replayed"  # noqa: S105 - the name of a member
REPLY: Final = "reply"
MAX_STORED: Final = 64 * 1024
_KEPT_HEADERS: Final = ("Location", "ETag")
# What can be read again, by the prefix of its id. All other answers are small.
_ROUTES: Final = {"whk": "webhook", "att": "attempt", "evt": "event", "job": "job"}


def stored(response: Response, operation: Operation) -> dict[str, Any]:
    """Return the columns of the record that keep an answer; a secret that is shown once is not in them.

    Of an answer above 64 KiB only the place is kept where the same can be read again.
    """
    headers = {name: response[name] for name in _KEPT_HEADERS if name in response}
    kept = _without_reply(_without_secrets(response.data, operation), operation)
    if response.status_code >= 400:
        # Something was done before it failed, so sending the same again will not do it.
        kept = {**kept, "retryable": False}
    body = b"" if kept is None else ApiRenderer().render(kept)
    place = _place(kept) if len(body) > MAX_STORED else None
    if place is not None:
        headers["Content-Location"] = place
    return {"status": response.status_code, "headers": headers, "body": body if place is None else None}


def repeated(record: IdempotencyRecord, request: HttpRequest, operation: Operation) -> Response:
    """Return the stored answer, marked as one."""
    if record.body is None:
        response = _read_again(record, request, operation)
    else:
        kind = MEDIA_TYPE if (record.status or 0) >= 400 else None
        response = Response(_kept(record, operation), status=record.status, content_type=kind)
    if response.status_code >= 400:
        response.data["request_id"] = getattr(request, "request_id", "")
    for name, value in {**record.headers, REPLAYED: "true"}.items():
        response[name] = value
    return response


def _without_secrets(data: Any, operation: Operation) -> Any:
    if not isinstance(data, Mapping) or not operation.shown_once & data.keys():
        return data
    shown = {name: value for name, value in data.items() if name not in operation.shown_once}
    return {**shown, SECRET_REPLAYED: False}


def _without_reply(data: Any, operation: Operation) -> Any:
    return {**data, REPLY: None} if _has_reply(data, operation) else data


def _has_reply(data: Any, operation: Operation) -> bool:
    return operation.answer is Attempt and isinstance(data, Mapping) and REPLY in data


def _kept(record: IdempotencyRecord, operation: Operation) -> Any:
    raw = bytes(record.body or b"")
    data: Any = json.loads(raw) if raw else None
    if not _has_reply(data, operation):
        return data
    number = parse_id("att", str(data["id"]))
    attempts = AttemptRow.objects.using(conf.current().DATABASE)
    attempt = None if number is None else attempts.filter(pk=UUID(int=number)).first()
    return {**data, REPLY: Attempt().get_reply(attempt or AttemptRow())}


def _place(data: Any) -> str | None:
    prefix = str(data.get("id", "")).partition("_")[0] if isinstance(data, Mapping) else ""
    return reverse(f"webhooks_app:{_ROUTES[prefix]}", args=[data["id"]]) if prefix in _ROUTES else None


def _read_again(record: IdempotencyRecord, request: HttpRequest, operation: Operation) -> Response:
    """Ask the view of the kept place, as the same caller."""
    again = copy(request)
    again.method, again.GET = "GET", QueryDict()
    again.META = {**request.META, "REQUEST_METHOD": "GET", "QUERY_STRING": "", "CONTENT_LENGTH": "0"}
    again.path = record.headers["Content-Location"]
    again.path_info = "/" + again.path.removeprefix(get_script_prefix())
    match = resolve(again.path_info)
    response: Response = match.func(again, *match.args, **match.kwargs)
    if response.status_code != 200:
        return response
    secret = {SECRET_REPLAYED: False} if operation.shown_once else {}
    return Response({**response.data, **secret}, status=record.status)
