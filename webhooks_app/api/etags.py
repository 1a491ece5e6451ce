"""Entity tags of webhooks, and the conditions that requests set with them (RFC 9110, 8.8.3 and 13)."""

import hashlib
from typing import Any

from django.http import HttpRequest
from django.utils.http import parse_etags

from ..actions.locking import Check
from ..models import Endpoint, EndpointState
from .problems import PreconditionFailed
from .rendering import ApiRenderer
from .serializers.webhook import Webhook


def etag_of(endpoint: Endpoint) -> str:
    """Return the strong tag of a webhook with its state: another one whenever what is shown changes."""
    shown: Any = Webhook(endpoint).data
    digest = hashlib.sha256(ApiRenderer().render(shown)).hexdigest()[:24]
    return f'"{endpoint.revision}-{digest}"'


def if_match(request: HttpRequest) -> Check | None:
    """Return the check that `If-Match` asks for, to be made under the locks of the change; None without it.

    Only strong tags can match (section 13.1.1); `*` does whenever there is a webhook. What is no list of tags
    matches nothing. The check raises PreconditionFailed.
    """
    given = request.META.get("HTTP_IF_MATCH")
    tags = [] if given is None else parse_etags(given)
    if given is None or tags == ["*"]:
        return None

    def check(endpoint: Endpoint, state: EndpointState) -> None:
        endpoint.state = state
        if etag_of(endpoint) not in tags:
            raise PreconditionFailed

    return check


def is_unchanged(request: HttpRequest, etag: str) -> bool:
    """Whether `If-None-Match` says that the caller has this already; weak tags match too (section 13.1.2)."""
    tags = parse_etags(request.META.get("HTTP_IF_NONE_MATCH", ""))
    return tags == ["*"] or etag in (tag.removeprefix("W/") for tag in tags)
