"""/v1/openapi.json and /v1/docs/: the interface described, for programs and for people; open to everybody."""

from functools import cache
from pathlib import Path
from typing import Any

from django.http import HttpResponse
from django.template.backends.django import DjangoTemplates
from django.urls import reverse
from rest_framework.request import Request
from rest_framework.response import Response

from ..errors import CATALOGUE
from ..event_hooks import event_hooks
from ..reference import Reference
from ..schema import document
from .base import BaseView

_KEEP = "public, max-age=300"


class OpenApi(BaseView):
    """The OpenAPI document."""

    def get(self, request: Request) -> Response:
        """Return it, with the place where this host mounts the API."""
        return Response(_placed(), headers={"Cache-Control": _KEEP})


class Docs(BaseView):
    """The page for people: plain HTML with a style sheet of ours, so it works without the internet."""

    def get(self, request: Request) -> HttpResponse:
        """Return the page."""
        page = _templates().get_template("webhooks_app/docs.html")
        context = {
            "reference": Reference(_placed()),
            "errors": CATALOGUE,
            "openapi": reverse("webhooks_app:openapi"),
        }
        return HttpResponse(page.render(context), headers={"Cache-Control": _KEEP})


@cache
def _templates() -> DjangoTemplates:
    """Return an engine of our own: a host that only serves an API has none, or one for Jinja2."""
    folder = Path(__file__).parents[2] / "templates"
    return DjangoTemplates({"NAME": "webhooks_app", "DIRS": [folder], "APP_DIRS": False, "OPTIONS": {}})


def _placed() -> dict[str, Any]:
    prefix = reverse("webhooks_app:openapi").removesuffix("/v1/openapi.json")
    servers = {"servers": [{"url": prefix}]} if prefix else {}
    return {**document(), **servers, "webhooks": event_hooks()}
