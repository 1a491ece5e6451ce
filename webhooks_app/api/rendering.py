"""How answers are written."""

from typing import Any

from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request


class ApiRenderer(JSONRenderer):
    """Compact UTF-8 JSON."""

    charset = None
    ensure_ascii = False
    compact = True
    strict = True


class AlwaysJson(BaseContentNegotiation):
    """Answers in JSON whatever is asked for, as RFC 9110, section 12.5.1, allows."""

    def select_parser(self, request: Request, parsers: list[Any]) -> Any:
        """Return the one parser."""
        return parsers[0]

    def select_renderer(
        self, request: Request, renderers: list[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        """Return the one renderer."""
        return renderers[0], renderers[0].media_type
