"""How values appear: strangers' text escaped and harmless, URLs by their host only."""

import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.http import urlencode
from django.utils.safestring import SafeString

NOTHING = "-"
MAX_TEXT = 20_000


def visible(text: str) -> str:
    """Return text with what does not print (controls, direction marks) written as escapes."""
    return "".join(
        each if each.isprintable() or each in "\n\t" else each.encode("unicode_escape").decode()
        for each in text
    )


def pre(text: str) -> SafeString | str:
    """Return text as an escaped block, cut at MAX_TEXT characters."""
    if not text:
        return NOTHING
    cut = f"{visible(text[:MAX_TEXT])}{' …' if len(text) > MAX_TEXT else ''}"
    return format_html('<pre class="wh-text">{}</pre>', cut)


def text_of(data: bytes | memoryview | None) -> str:
    """Return stored bytes as text, whatever they are."""
    return "" if data is None else bytes(data).decode("utf-8", "replace")


def pre_json(value: Any) -> SafeString | str:
    """Return a JSON value as an escaped, indented block."""
    return pre(json.dumps(value, indent=2, ensure_ascii=False))


def host(url: str) -> str:
    """Return scheme and host of a URL: its path and query often hold the consumer's secret."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return NOTHING
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def link(name: str, pk: Any, text: str) -> SafeString:
    """Return a link to an object of this app; `name` is the model's."""
    return format_html('<a href="{}">{}</a>', reverse(f"admin:webhooks_app_{name}_change", args=[pk]), text)


def search_link(name: str, term: str, text: str) -> SafeString:
    """Return a link to a list of this app, searched for `term`."""
    url = reverse(f"admin:webhooks_app_{name}_changelist")
    return format_html('<a href="{}?{}">{}</a>', url, urlencode({"q": term}), text)


def joined(links: Iterable[SafeString]) -> SafeString:
    """Return links in a row."""
    return format_html_join(" · ", "{}", ((each,) for each in links))


def lines(parts: Iterable[str]) -> SafeString:
    """Return escaped texts, one below the other, none of them broken."""
    return format_html_join("", '<div class="wh-line">{}</div>', ((each,) for each in parts))
