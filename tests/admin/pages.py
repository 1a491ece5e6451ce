"""URLs and contents of the admin's pages."""

from typing import Any

from django.test import Client
from django.urls import reverse

from tests.admin.html import FormReader


def list_url(model: str) -> str:
    """Return the URL of a list."""
    return reverse(f"admin:webhooks_app_{model}_changelist")


def page_url(model: str, pk: Any) -> str:
    """Return the URL of an object's page."""
    return reverse(f"admin:webhooks_app_{model}_change", args=[pk])


def verb_url(pk: int, verb: str) -> str:
    """Return the URL of something to do to an endpoint."""
    return reverse("admin:webhooks_app_endpoint_verb", args=[pk, verb])


def listed(client: Client, model: str, **query: Any) -> list[Any]:
    """Return the keys of the rows that a list shows."""
    answer = client.get(list_url(model), query)
    assert answer.status_code == 200, (answer.status_code, query)
    return [row.pk for row in answer.context["cl"].result_list]


def fields_of(html: str, /, **changes: Any) -> dict[str, Any]:
    """Return what a browser would send for the form in a page, with some fields changed."""
    reader = FormReader()
    reader.feed(html)
    return {**{name: value for name, value in reader.values.items() if value is not None}, **changes}


def missed_url(pk: int) -> str:
    """Return the URL of what an endpoint lacks."""
    return reverse("admin:webhooks_app_endpoint_missed", args=[pk])


def retry_url() -> str:
    """Return the URL of the bulk retry."""
    return reverse("admin:webhooks_app_delivery_retry")
