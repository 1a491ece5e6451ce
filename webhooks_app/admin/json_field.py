"""The form field of a JSON value: whatever text is typed, it is one the API would take or a form error."""

import json
import re
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.forms.fields import InvalidJSONInput

from ..core.strict_json import PayloadError, RepeatedMember, encode, members

# Above the 100 levels that are allowed, whose error says more, and far below the parser's own limit.
MAX_NESTING = 200
_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"')
_BRACKETS = re.compile(r"[\[\]{}]")


class JsonField(forms.JSONField):
    """A JSON value in a text area; no value is an empty text, not the word null."""

    widget = forms.Textarea(attrs={"rows": 4, "cols": 60, "class": "vLargeTextField"})

    def to_python(self, value: Any) -> Any:
        """Return the value. Raises ValidationError saying what is wrong."""
        if fault := _fault(value):
            raise ValidationError(fault, code="invalid")
        return super().to_python(value)

    def bound_data(self, data: Any, initial: Any) -> Any:
        """Return what the form shows again; a text that is refused as it was typed."""
        return InvalidJSONInput(data) if _fault(data) else super().bound_data(data, initial)

    def prepare_value(self, value: Any) -> Any:
        """Return the text to show."""
        return "" if value is None else super().prepare_value(value)


def _fault(text: object) -> str | None:
    """Say what is wrong with a typed text; None = nothing."""
    if not isinstance(text, str) or not text:
        return None
    if _is_deep(text):
        return "Is nested too deeply."
    try:
        # What parses may still be too deep or too large for those that read it later.
        encode(json.loads(text, object_pairs_hook=members))
    except RepeatedMember:
        return "A member is given twice in one object."
    except PayloadError as error:
        return str(error).removeprefix("/")
    except json.JSONDecodeError as error:
        return f"Not JSON: {error.msg} (line {error.lineno}, column {error.colno})."
    except ValueError:
        return "An integer has too many digits."
    return None


def _is_deep(text: str) -> bool:
    """Whether a parser would go deep: told without one, for at its limit whatever else runs fails too."""
    depth = deepest = 0
    for mark in _BRACKETS.findall(_STRINGS.sub("", text)):
        depth += 1 if mark in "[{" else -1
        deepest = max(deepest, depth)
    return deepest > MAX_NESTING
