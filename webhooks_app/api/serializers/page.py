"""The query parameters and the frame that every list shares."""

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from rest_framework import serializers

from ..cursors import MAX_LENGTH
from ..pagination import DEFAULT_LIMIT, MAX_LIMIT
from ..strict import Strict, Text

_DIGITS = re.compile(r"-?[0-9]+")
_FAR = 10**9


class Digits(serializers.IntegerField):
    """A whole number as text of a query."""

    default_error_messages: ClassVar = {"invalid": "Must be a whole number."}

    def to_internal_value(self, data: Any) -> int:
        """Return the number, or refuse."""
        if not _DIGITS.fullmatch(data):
            self.fail("invalid")
        # What is longer is out of every range, and may be too long to convert.
        return int(data) if len(data) < 10 else -_FAR if data.startswith("-") else _FAR


class PageQuery(Strict):
    """Parameters of every list."""

    limit = Digits(
        default=DEFAULT_LIMIT, min_value=1, max_value=MAX_LIMIT, help_text="Rows a page has at most."
    )
    cursor = Text(required=False, max_length=MAX_LENGTH, help_text="The `next_cursor` of the page before.")

    def validate(self, attrs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Refuse a time span that ends before it begins."""
        since, until = attrs.get("since"), attrs.get("until")
        if since is not None and until is not None and until <= since:
            raise serializers.ValidationError({"until": ["Must be later than since."]})
        return attrs


class Page(serializers.Serializer):
    """One page; subclasses add `data`."""

    next_cursor = serializers.CharField(
        allow_null=True,
        help_text="Null on the last page, and only there: with filters a page may be short, even empty.",
    )
