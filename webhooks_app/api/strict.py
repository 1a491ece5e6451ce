"""Serializers that take JSON literally: a number is no text, "true" no boolean, an unknown field an error.

DRF's own fields convert what looks alike. These do not: a client's mistake is answered, not guessed at.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar, Final

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from ..core.envelope import timestamp

# RFC 3339, section 5.6; a leap second has no place in a datetime.
_MOMENT: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:[0-5]\d(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})", re.ASCII
)


class Text(serializers.CharField):
    """A string as it came, untrimmed; empty only with `allow_blank`, never with NUL or a lone surrogate."""

    default_error_messages: ClassVar = {"invalid": "Must be a string."}

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"trim_whitespace": False, **options})

    def to_internal_value(self, data: Any) -> Any:
        """Return the string, or refuse."""
        if not isinstance(data, str):
            self.fail("invalid")
        return data


class Choice(serializers.ChoiceField):
    """One of some strings."""

    default_error_messages: ClassVar = {"invalid_choice": "Must be one of {known}."}

    def to_internal_value(self, data: Any) -> Any:
        """Return the choice, or refuse."""
        if not isinstance(data, str) or data not in self.choices:
            self.fail("invalid_choice", known=", ".join(self.choices))
        return data


class Flag(serializers.BooleanField):
    """JSON's true or false."""

    default_error_messages: ClassVar = {"invalid": "Must be true or false."}

    def to_internal_value(self, data: Any) -> Any:
        """Return the boolean, or refuse."""
        if not isinstance(data, bool):
            self.fail("invalid")
        return data


class Whole(serializers.IntegerField):
    """An integer: no boolean, no text, no 1.0."""

    default_error_messages: ClassVar = {"invalid": "Must be a whole number."}

    def to_internal_value(self, data: Any) -> Any:
        """Return the integer, or refuse."""
        if isinstance(data, bool) or not isinstance(data, int):
            self.fail("invalid")
        return data


class Number(serializers.FloatField):
    """A JSON number, left as it is: the rules of its range are the action's."""

    default_error_messages: ClassVar = {"invalid": "Must be a number."}

    def to_internal_value(self, data: Any) -> Any:
        """Return the number, or refuse."""
        if isinstance(data, bool) or not isinstance(data, int | float):
            self.fail("invalid")
        return data


class Moment(serializers.DateTimeField):
    """A time with its zone (RFC 3339, section 5.6); shown in UTC with milliseconds."""

    default_error_messages: ClassVar = {
        "invalid": "Must be a time such as 2026-10-01T12:00:00Z, zone included."
    }

    def to_internal_value(self, value: Any) -> Any:
        """Return the moment in UTC, or refuse."""
        if not isinstance(value, str) or not _MOMENT.fullmatch(value):
            self.fail("invalid")
        try:
            return datetime.fromisoformat(value.upper()).astimezone(UTC)
        except (ValueError, OverflowError):
            return self.fail("invalid")

    def to_representation(self, value: datetime) -> str:
        """Return the moment as events carry it."""
        return timestamp(value)


@extend_schema_field({"type": "object", "additionalProperties": {}})
class Object(serializers.JSONField):
    """Any JSON object."""

    default_error_messages: ClassVar = {"invalid": "Must be a JSON object."}

    def to_internal_value(self, data: Any) -> Any:
        """Return the object, or refuse."""
        if not isinstance(data, dict):
            self.fail("invalid")
        return data

    def to_representation(self, value: Any) -> Any:
        """Return the object as it is."""
        return value


class Strict(serializers.Serializer):
    """A JSON object whose every member is declared.

    `hints` says for a field that exists elsewhere why it is refused here; `keywords` are JSON Schema's, with
    which the document tells of the object as a whole.
    """

    default_error_messages: ClassVar = {"invalid": "Must be a JSON object."}
    hints: ClassVar[Mapping[str, str]] = {}
    keywords: ClassVar[Mapping[str, Any]] = {"additionalProperties": False}

    def to_internal_value(self, data: Any) -> Any:
        """Return the validated values, or refuse with every fault."""
        unknown = self._unknown(data) if isinstance(data, Mapping) else {}
        try:
            values: dict[str, Any] = super().to_internal_value(data)
        except serializers.ValidationError as error:
            raise serializers.ValidationError({**error.detail, **unknown}) from None
        if unknown:
            raise serializers.ValidationError(unknown)
        return values

    def _unknown(self, names: Iterable[str]) -> dict[str, list[str]]:
        known = {name for name, field in self.fields.items() if not field.read_only}
        return {name: [self._refusal(name)] for name in names if name not in known}

    def _refusal(self, name: str) -> str:
        known = ", ".join(self.fields) or "none here"
        return self.hints.get(name) or f"Unknown field; known: {known}."
