"""What a request carries: golden headers, and custom ones that cannot replace ours."""

from dataclasses import replace

import pytest

from webhooks_app.core import formats
from webhooks_app.core.headers import HeaderError

STAMP = formats.Stamp(
    event_id="evt_01JZ8QK3T7V9X2B4D6F8H0J2M4",
    event_type="order.paid",
    endpoint_id="whk_01JZ8QK3T7V9X2B4D6F8H0J2M5",
    attempt_id="att_01JZ8QK3T7V9X2B4D6F8H0J2M6",
    attempt=3,
    timestamp=1_700_000_000,
    signature="v1,AAAA v1,BBBB",
)


def headers(stamp: formats.Stamp = STAMP, **options: object) -> tuple[tuple[str, str], ...]:
    given = {"content_type": "application/json", "user_agent": formats.user_agent("0.1.0")} | options
    return formats.request_headers(stamp, **given)  # type: ignore[arg-type]


def test_the_headers_are_the_golden_ones() -> None:
    assert headers(custom=[("Authorization", "Bearer x"), ("X-Team", "blue")]) == (
        ("Content-Type", "application/json"),
        ("User-Agent", "django-webhooks-app/0.1.0"),
        ("webhook-id", "evt_01JZ8QK3T7V9X2B4D6F8H0J2M4"),
        ("webhook-timestamp", "1700000000"),
        ("webhook-signature", "v1,AAAA v1,BBBB"),
        ("webhook-delivery-id", "att_01JZ8QK3T7V9X2B4D6F8H0J2M6"),
        ("webhook-endpoint-id", "whk_01JZ8QK3T7V9X2B4D6F8H0J2M5"),
        ("webhook-attempt", "3"),
        ("webhook-event-type", "order.paid"),
        ("Authorization", "Bearer x"),
        ("X-Team", "blue"),
    )


def test_no_name_is_sent_twice() -> None:
    names = [name.lower() for name, _ in headers()]
    assert len(set(names)) == len(names)


def test_a_retry_keeps_the_event_and_marks_the_attempt() -> None:
    again = replace(STAMP, attempt_id="att_x", attempt=4, timestamp=1_700_009_000, signature="v1,CCCC")
    changed = {one[0] for one, two in zip(headers(), headers(again), strict=True) if one != two}
    assert changed == {"webhook-timestamp", "webhook-signature", "webhook-delivery-id", "webhook-attempt"}


@pytest.mark.parametrize(
    "custom", [("webhook-id", "evt_x"), ("Host", "x"), ("X", "a\r\nY: b"), ("X\n", "a"), ("X", "é"), ("X", 7)]
)
def test_b073_an_old_bad_row_is_an_error_that_names_it(custom: tuple[str, str]) -> None:
    with pytest.raises(HeaderError) as raised:
        headers(custom=[("X-Good", "1"), custom])
    assert raised.value.path.startswith("/headers/1/")


def test_the_envelope_is_sent_as_it_was_stored() -> None:
    body = b'{"id":"evt_1"}'
    content = formats.render(formats.DEFAULT, body)
    assert content == formats.Content(body, "application/json")
    assert content.body is body


def test_a_format_nobody_knows_is_an_error() -> None:
    with pytest.raises(KeyError):
        formats.render("xml", b"{}")
