"""The literal fields, one by one."""

from datetime import UTC, datetime
from typing import Any

import pytest
from rest_framework import serializers

from webhooks_app.api.strict import Choice, Flag, Moment, Number, Object, Strict, Text, Whole


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (Text(), " as it came \n"),
        (Text(), "😊\u2028"),
        (Text(), " "),
        (Text(allow_blank=True), ""),
        (Choice(choices=["a", "b"]), "b"),
        (Flag(), False),
        (Whole(), 10**30),
        (Whole(), -1),
        (Number(), 1),
        (Number(), 0.5),
        (Object(), {"a": [1, {"b": None}]}),
    ],
)
def test_right_values_stay_as_they_are(field: serializers.Field, value: Any) -> None:
    kept = field.run_validation(value)
    assert (kept, type(kept)) == (value, type(value))


@pytest.mark.parametrize(
    ("field", "values"),
    [
        (Text(), [1, True, None, [], {}, "", "a\0", "\ud800", b"x"]),
        (Choice(choices=["a", "b"]), ["c", "A", "", None, 1, [], ["a"], {}]),
        (Flag(), ["true", "false", "on", 0, 1, 1.0, None, [], {}]),
        (Whole(), ["1", 1.0, True, False, None, [], {}]),
        (Number(), ["1", "NaN", True, None, [], {}]),
        (Object(), ["{}", [], None, 1, True]),
        (
            Moment(),
            [
                1,
                None,
                "",
                "2026-10-01",
                "2026-10-01T00:00:00",
                "2026-10-01 00:00:00Z",
                "2026-10-01T24:00:00Z",
                "2026-10-01T23:59:60Z",
                "2026-02-30T00:00:00Z",
                "2026-10-01T00:00:00+0200",
                "2026-10-01T00:00:00+99:00",
                "0001-01-01T00:00:00+14:00",
                "9999-12-31T23:59:59-14:00",
                "٢٠٢٦-10-01T00:00:00Z",
                "2026-10-01T00:00:00Z\n",
            ],
        ),
    ],
)
def test_everything_else_is_refused(field: serializers.Field, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(serializers.ValidationError):
            field.run_validation(value)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-10-01T12:00:00Z", datetime(2026, 10, 1, 12, tzinfo=UTC)),
        ("2026-10-01t12:00:00.5z", datetime(2026, 10, 1, 12, 0, 0, 500_000, tzinfo=UTC)),
        ("2026-10-01T12:00:00.123456789+05:30", datetime(2026, 10, 1, 6, 30, 0, 123_456, tzinfo=UTC)),
        ("0001-01-01T00:00:00-14:00", datetime(1, 1, 1, 14, tzinfo=UTC)),
    ],
)
def test_moments(text: str, moment: datetime) -> None:
    assert Moment().run_validation(text) == moment


def test_moments_are_shown_in_utc_with_milliseconds() -> None:
    assert Moment().to_representation(datetime(2026, 1, 2, 3, 4, 5, 678_999, tzinfo=UTC)) == (
        "2026-01-02T03:04:05.678Z"
    )


class Pair(Strict):
    """An object of two members."""

    left = Whole()
    right = Text(required=False)


def test_unknown_members_are_named_beside_the_other_faults() -> None:
    pair = Pair(data={"left": "1", "Right": "x"})
    assert not pair.is_valid()
    assert {name: str(texts[0]) for name, texts in pair.errors.items()} == {
        "left": "Must be a whole number.",
        "Right": "Unknown field; known: left, right.",
    }
