"""The OpenAPI document as rows for a page: references followed, nested objects told in dotted names."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from json import dumps
from typing import Any

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from .parsing import MEDIA_TYPE as JSON
from .problems import MEDIA_TYPE

Schema = Mapping[str, Any]
# Objects nested deeper than this are told by their type alone.
_DEPTH = 4


@dataclass(frozen=True, slots=True)
class Row:
    """A parameter or a member of an object."""

    name: str
    type: str
    required: bool
    description: SafeString


@dataclass(frozen=True, slots=True)
class Answer:
    """One status an operation answers with; `members` are told for successes only."""

    status: str
    description: SafeString
    members: list[Row] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Entry:
    """One operation."""

    id: str
    method: str
    path: str
    summary: str
    description: SafeString
    parameters: list[Row]
    body: list[Row]
    example: str
    answers: list[Answer]


@dataclass(frozen=True, slots=True)
class Section:
    """The operations of one tag."""

    name: str
    description: str
    entries: list[Entry]


def prose(text: str) -> SafeString:
    """Return text as HTML, what stands between backticks as code."""
    parts = (
        f"<code>{part}</code>" if place % 2 else part for place, part in enumerate(escape(text).split("`"))
    )
    return mark_safe("".join(parts))  # noqa: S308 - escaped above


def _pretty(example: Any) -> str:
    return dumps(example, indent=2, ensure_ascii=False) if example else ""


class Reference:
    """What the documentation page shows."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self.title: str = document["info"]["title"]
        self.version: str = document["info"]["version"]
        self.description: str = document["info"]["description"]
        self.sections = [self._section(tag) for tag in document["tags"]]

    def _section(self, tag: Mapping[str, str]) -> Section:
        entries = [entry for name, entry in self._entries() if name == tag["name"]]
        return Section(tag["name"], tag["description"], entries)

    def _entries(self) -> Iterator[tuple[str, Entry]]:
        prefix = self._document.get("servers", [{"url": ""}])[0]["url"]
        for path, methods in self._document["paths"].items():
            for method, operation in methods.items():
                yield operation["tags"][0], self._entry(method, prefix + path, operation)

    def _entry(self, method: str, path: str, operation: Mapping[str, Any]) -> Entry:
        body = operation.get("requestBody", {}).get("content", {})
        return Entry(
            id=operation["operationId"],
            method=method.upper(),
            path=path,
            summary=operation["summary"],
            description=prose(operation["description"]),
            parameters=[self._parameter(each) for each in operation.get("parameters", [])],
            body=list(self._rows(body[JSON]["schema"])) if JSON in body else [],
            example=_pretty(body.get(JSON, {}).get("example")),
            answers=[self._answer(status, each) for status, each in operation["responses"].items()],
        )

    def _parameter(self, parameter: Mapping[str, Any]) -> Row:
        return Row(
            parameter["name"],
            self._type(parameter["schema"]),
            parameter.get("required", False),
            prose(parameter.get("description", "")),
        )

    def _answer(self, status: str, answer: Mapping[str, Any]) -> Answer:
        content = answer.get("content", {})
        rows = (
            []
            if MEDIA_TYPE in content
            else [r for each in content.values() for r in self._rows(each["schema"])]
        )
        return Answer(status, prose(answer["description"]), rows)

    def _rows(self, schema: Schema, prefix: str = "", depth: int = 0) -> Iterator[Row]:
        resolved = self._resolve(schema)
        required = resolved.get("required", [])
        for name, member in resolved.get("properties", {}).items():
            told = {**self._resolve(member), **member}
            yield Row(prefix + name, self._type(member), name in required, prose(told.get("description", "")))
            inner, mark = self._inner(member)
            if depth + 1 < _DEPTH:
                yield from self._rows(inner, f"{prefix}{name}{mark}.", depth + 1)

    def _inner(self, schema: Schema) -> tuple[Schema, str]:
        resolved = self._resolve(schema)
        return (resolved["items"], "[]") if "items" in resolved else (resolved, "")

    def _resolve(self, schema: Schema) -> Schema:
        """Return the object schema behind a reference, alone or beside null."""
        if "$ref" in schema:
            found: Schema = self._document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
            return self._resolve(found) if "oneOf" in found else found
        for choice in (*schema.get("allOf", ()), *schema.get("oneOf", ())):
            if choice.get("type") != "null":
                return self._resolve(choice)
        return schema

    def _type(self, schema: Schema) -> str:
        resolved = self._resolve(schema)
        kinds = resolved.get("type", "any")
        named = [kinds] if isinstance(kinds, str) else list(kinds)
        if {"type": "null"} in schema.get("oneOf", ()):
            named.append("null")
        if "items" in resolved:
            named[0] = f"array of {self._type(resolved['items'])}"
        if resolved.get("format") == "date-time":
            named[0] = "time"
        choices = [str(choice) for choice in resolved.get("enum", ()) if choice is not None]
        return " | ".join(named) + (f": {', '.join(choices)}" if choices else "")
