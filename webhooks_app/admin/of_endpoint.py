"""Columns of rows that belong to an endpoint."""

from collections.abc import Sequence
from typing import Any

from django.contrib import admin

from ..models import Endpoint
from . import shown
from .base import by_pk


def attach_endpoints(rows: Sequence[Any]) -> None:
    """Attach their endpoints to the rows of a list; one query."""
    endpoints = by_pk(Endpoint, (row.endpoint_id for row in rows), ["public_id"])
    for row in rows:
        row.endpoint_shown = endpoints.get(row.endpoint_id)


class OfEndpoint:
    """The endpoint in a list, and on a row's own page; a pruned one is shown as nothing."""

    @admin.display(description="endpoint")
    def endpoint_id_shown(self, row: Any) -> str:
        """Return the endpoint's id."""
        endpoint: Endpoint | None = getattr(row, "endpoint_shown", None)
        return endpoint.public_id if endpoint else shown.NOTHING

    @admin.display(description="endpoint")
    def endpoint_link(self, row: Any) -> str:
        """Return a link to the endpoint."""
        endpoint = by_pk(Endpoint, [row.endpoint_id], ["public_id"]).get(row.endpoint_id)
        return shown.link("endpoint", endpoint.pk, endpoint.public_id) if endpoint else shown.NOTHING
