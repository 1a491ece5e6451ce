"""CloudEvents 1.0.2 as they come in, in the JSON event format."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from ..strict import Choice, Moment, Object, Strict, Text
from .event import ENVIRONMENTS, TypeText

# Core specification, "Attribute Naming Convention"; and `data` is no attribute.
_NAME: Final = re.compile("(?!data)[a-z0-9]{1,100}")
# "Type System": control characters are not allowed in strings.
_CONTROLS: Final = r"\x00-\x1f\x7f-\x9f"
_CONTROL: Final = re.compile(f"[{_CONTROLS}]")
# RFC 3986: what may stand in a URI-reference.
_REFERENCE: Final = re.compile(r"[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+")
_JSON: Final = re.compile(r"application/(?:[a-z0-9.-]+\+)?json\s*(?:;.*)?", re.I)


@extend_schema_field({"type": "string", "pattern": f"^[^{_CONTROLS}]+$"})
class Attribute(Text):
    """A string of CloudEvents; the event checks it."""


@extend_schema_field({"type": "string", "pattern": f"^{_REFERENCE.pattern}$"})
class Reference(Text):
    """A URI-reference; the event checks it."""


class CloudEvent(Strict):
    """An event as other systems write it.

    Not kept, and so not sent on: `source`, `dataschema` and extensions that are not named here. What webhooks
    receive is one envelope, which has no place for them; what they need of it belongs into `data`.
    """

    hints: ClassVar = {"data_base64": "Binary data cannot be sent on; write a JSON object as data."}
    keywords: ClassVar = {
        "patternProperties": {f"^{_NAME.pattern}$": {}},
        "additionalProperties": {"type": "null"},
    }
    specversion = Choice(choices=["1.0"], help_text="`1.0`.")
    id = Attribute(
        max_length=1024, help_text="With `source` it says which event this is: a second one is ignored."
    )
    source = Reference(
        max_length=2048, help_text="A URI-reference; a part of the event's identity, and itself not kept."
    )
    type = TypeText(max_length=128, help_text="Words joined by full stops, such as `order.paid`.")
    subject = Attribute(max_length=256, required=False, allow_null=True, help_text="What the event is about.")
    time = Moment(
        required=False,
        allow_null=True,
        help_text="At most 1 hour ahead, and within the retention; default: now.",
    )
    datacontenttype = Attribute(
        max_length=256, required=False, allow_null=True, help_text="`application/json`."
    )
    dataschema = Attribute(max_length=2048, required=False, allow_null=True, help_text="Taken, and not kept.")
    data = Object(required=False, allow_null=True, help_text="Sent as it is; default: an empty object.")
    tenantid = Attribute(
        max_length=128, required=False, allow_null=True, help_text="Default: the key's own tenant."
    )
    identityid = Attribute(
        max_length=128,
        required=False,
        allow_null=True,
        help_text="A finer label that webhooks may filter on.",
    )
    ownerkind = Attribute(
        max_length=64, required=False, allow_null=True, help_text="With `ownerid`: whose sequence numbers it."
    )
    ownerid = Attribute(max_length=128, required=False, allow_null=True, help_text="Goes with `ownerkind`.")
    environment = Choice(
        choices=ENVIRONMENTS, required=False, allow_null=True, help_text="Default: the key's."
    )
    expirytime = Moment(required=False, allow_null=True, help_text="No attempt starts after it.")

    def to_internal_value(self, data: Any) -> Any:
        """Return the values; an attribute that is null is one that is absent (JSON format, section 2.2)."""
        if isinstance(data, dict):
            data = {name: value for name, value in data.items() if value is not None}
        return super().to_internal_value(data)

    def validate(self, attrs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Check what concerns several attributes, or all of them."""
        faults = {
            name: ["Must not hold control characters."]
            for name, value in attrs.items()
            if isinstance(value, str) and _CONTROL.search(value)
        }
        if not _REFERENCE.fullmatch(attrs["source"]):
            faults["source"] = ["Must be a URI-reference, with other characters percent-encoded."]
        if not _JSON.fullmatch(attrs.get("datacontenttype", "application/json")):
            faults["datacontenttype"] = ["Must be application/json: data is a JSON object."]
        if ("ownerkind" in attrs) != ("ownerid" in attrs):
            faults["ownerid" if "ownerkind" in attrs else "ownerkind"] = [
                "ownerkind and ownerid go together."
            ]
        if faults:
            raise serializers.ValidationError(faults)
        return attrs

    def _unknown(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Refuse what can be no extension; those that are one may say what they like."""
        strange = [name for name in names if name not in self.fields and not _NAME.fullmatch(name)]
        hint = "Not a name of CloudEvents: a-z and 0-9."
        return {name: [self.hints.get(name, hint)] for name in strange}


class CloudEventList(serializers.ListSerializer):
    """A batch of the JSON format; only described, for its events are read one by one."""

    child = CloudEvent()
