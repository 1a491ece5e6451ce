"""What receivers answer: trouble in the body changes no verdict, and their text stays text."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from tests.conformance.consumer import Consumer
from tests.conformance.driving import attempts, delivery
from tests.net.servers import Connection, reply
from webhooks_app.actions.actor import operator
from webhooks_app.actions.api_keys import create_api_key
from webhooks_app.models import Endpoint

pytestmark = pytest.mark.once

Emit = Callable[..., str]
IMAGE, BREAKOUT = "<img src=x onerror=alert(1)>", '"><script>alert(2)</script>'


@pytest.mark.parametrize(
    ("answer", "detail", "kept"),
    [
        (reply("200 OK", b"plain text", "Content-Encoding: gzip"), "", b"plain text"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nshort", "body_incomplete", b"short"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "body_incomplete", b""),
        (reply("200 OK", b"\xff\x00\x1b[31m"), "", b"\xff\x00\x1b[31m"),
        (reply("200 OK", b"x" * 50_000), "", b"x" * 4096),
    ],
)
def test_a_broken_body_after_a_2xx_is_a_success(  # B097, B099, CL-4, CL-10
    endpoint: Endpoint, emit: Emit, consumer: Consumer, answer: bytes, detail: str, kept: bytes
):
    consumer.answer(answer, close=True)
    emit()
    (attempt,) = attempts()
    assert (attempt.status, delivery().state, attempt.http_status) == ("succeeded", "delivered", 200)
    assert attempt.detail == detail
    assert bytes(attempt.reply_body) == kept


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "invalid_response"),
        (b"HTTP/1.1 0200 OK\r\n\r\n", "invalid_response"),
        (b"HTTP/1.1 200 OK\r\n" + b"X-H: 1\r\n" * 120 + b"\r\n", "invalid_response"),
        (b"HTTP/1.1 200 OK\r\nX-H: " + b"x" * 70_000 + b"\r\n\r\n", "invalid_response"),
        (b"", "reset"),
    ],
)
def test_what_is_no_answer_is_tried_again(  # B075, B101, B102, CL-7
    endpoint: Endpoint, emit: Emit, consumer: Consumer, answer: bytes, error: str
):
    consumer.answer(answer, close=True)
    emit()
    (attempt,) = attempts()
    assert (attempt.status, attempt.error, attempt.http_status) == ("failed", error, None)
    assert (delivery().state, len(consumer.requests)) == ("pending", 1)


def test_an_answer_before_the_body_was_read(  # CL-8
    endpoint: Endpoint, emit: Emit, consumer: Consumer
):
    """Seen as a 413 or as a broken connection: either way it is tried again."""

    def refuse(connection: Connection) -> None:
        connection.socket.recv(100)
        connection.write(reply("413 Too Large", b"", "Connection: close"))

    consumer.server.behaviour = refuse
    emit({"text": "x" * 250_000})
    (attempt,) = attempts()
    assert attempt.error in {"status_4xx", "reset"}
    assert (attempt.status, delivery().state) == ("failed", "pending")


@pytest.fixture
def hostile(endpoint: Endpoint, emit: Emit, consumer: Consumer) -> str:
    """An attempt whose reply is full of markup; returns its key."""
    consumer.always = reply("500 Oops", IMAGE.encode(), f"X-Odd: {BREAKOUT}", "Content-Type: text/html")
    emit()
    return str(attempts()[0].pk)


def test_the_api_gives_it_as_text_of_json(hostile: str, endpoint: Endpoint):  # B105
    key = create_api_key(
        operator("command", "tests"), scope="tenant", scope_id="acme", permissions=["webhooks:read"]
    )
    path = f"/webhooks/v1/webhooks/{endpoint.public_id}/attempts"
    answer = Client().get(path, HTTP_AUTHORIZATION=f"Bearer {key.key}")
    assert answer["Content-Type"] == "application/json"
    assert answer["X-Content-Type-Options"] == "nosniff"
    shown = json.loads(answer.content)["data"][0]["reply"]
    assert shown["body"] == IMAGE
    assert {"name": "X-Odd", "value": BREAKOUT} in shown["headers"]


def test_the_admin_shows_it_escaped(hostile: str, admin_client: Client):  # B105
    page = reverse("admin:webhooks_app_attempt_change", args=[hostile])
    html = admin_client.get(page).content.decode()
    assert "&lt;img src=x onerror=alert(1)&gt;" in html
    assert IMAGE not in html
    assert "<script>alert" not in html


def test_odd_bytes_break_no_page_and_no_list(  # CL-10
    endpoint: Endpoint, emit: Emit, consumer: Consumer, admin_client: Client, settings: Any
):
    consumer.always = reply("500 Oops", b"a\x00\xff\x1b[31m\xe2\x80\xaetxt", "X-Latin: \xff\xfe")
    emit()
    (attempt,) = attempts()
    page = reverse("admin:webhooks_app_attempt_change", args=[str(attempt.pk)])
    assert admin_client.get(page).status_code == 200
    assert admin_client.get(reverse("admin:webhooks_app_attempt_changelist")).status_code == 200
