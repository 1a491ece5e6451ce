"""The customers of the demo: they check as a customer would."""

import http.client
import json
import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme
from standardwebhooks import Webhook

from project.demo.environment import free_ports
from project.demo.receiver import Arrival, Receiver

HOST = "hooks.acme-demo.com"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = json.dumps({"type": "order.paid", "data": {"order": 1}})


def headers(*, number: int = 1, secret: str = SECRET, event: str = "evt_1") -> dict[str, str]:
    """Return the headers of a signed message."""
    now = datetime.now(UTC)
    return {
        "webhook-id": event,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(secret).sign(event, now, BODY),
        "webhook-attempt": str(number),
    }


@pytest.fixture
def seen() -> list[Arrival]:
    """What the receiver told."""
    return []


@pytest.fixture
def authority() -> trustme.CA:
    """A certificate authority."""
    return trustme.CA()


@pytest.fixture
def receiver(tmp_path: Path, authority: trustme.CA, seen: list[Arrival]) -> Iterator[Receiver]:
    """A receiver that knows one customer."""
    certificate = tmp_path / "customers.pem"
    authority.issue_cert(HOST).private_key_and_cert_chain_pem.write_to_path(str(certificate))
    _, port, dead_port = free_ports(0)
    made = Receiver(port, dead_port, certificate, seen.append)
    made.secrets[HOST] = SECRET
    made.start()
    yield made
    made.stop()


def test_a_signed_message_is_accepted(receiver: Receiver, seen: list[Arrival]) -> None:
    assert receiver.handle(HOST, headers(), BODY.encode()) == 200
    assert seen == receiver.arrivals() == [Arrival(HOST, json.loads(BODY), 1, True, 200)]


@pytest.mark.parametrize("body", [BODY.replace("1", "2").encode(), b"", b"\xff"])
def test_another_body_is_refused(receiver: Receiver, body: bytes) -> None:
    assert receiver.handle(HOST, headers(), body) == 401
    assert not receiver.arrivals()[0].verified


def test_another_secret_host_or_no_signature_is_refused(receiver: Receiver) -> None:
    assert receiver.handle(HOST, headers(secret="whsec_" + "A" * 32), BODY.encode()) == 401
    assert receiver.handle("hooks.birch-demo.com", headers(), BODY.encode()) == 401
    assert receiver.handle(HOST, {}, BODY.encode()) == 401
    assert receiver.handle(HOST, {**headers(), "webhook-timestamp": "1"}, BODY.encode()) == 401


def test_a_broken_customer_refuses_each_message_twice(receiver: Receiver) -> None:
    receiver.behave(HOST, refusals=2)
    for event in ("evt_1", "evt_2"):
        answers = [
            receiver.handle(HOST, headers(number=each, event=event), BODY.encode()) for each in (1, 2, 3)
        ]
        assert answers == [503, 503, 200]


def test_one_that_stumbles_refuses_the_first_request_only(receiver: Receiver) -> None:
    receiver.behave(HOST, stumbles=1)
    answers = [receiver.handle(HOST, headers(event=each), BODY.encode()) for each in ("evt_1", "evt_2")]
    assert answers == [503, 200]


def test_one_that_broke_down_refuses_until_it_is_mended(receiver: Receiver, seen: list[Arrival]) -> None:
    receiver.break_down(HOST)
    answers = [receiver.handle(HOST, headers(), BODY.encode()) for _ in range(2)]
    receiver.mend(HOST)
    answers += [receiver.handle(HOST, headers(), BODY.encode()) for _ in range(2)]
    assert answers == [503, 503, 200, 200]
    assert [each.comeback for each in seen] == [False, False, True, False]


def test_nobody_answers_at_the_dead_port_until_it_is_switched_on(receiver: Receiver) -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", receiver.dead_port), timeout=5)
    receiver.switch_on()
    socket.create_connection(("127.0.0.1", receiver.dead_port), timeout=5).close()


def test_it_listens_on_loopback_with_its_certificate(receiver: Receiver, authority: trustme.CA) -> None:
    context = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
    port = receiver.port
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=5, context=context)
    connection.sock = context.wrap_socket(
        socket.create_connection(("127.0.0.1", port), timeout=5), server_hostname=HOST
    )
    for number in (1, 2):
        connection.request("POST", "/orders", BODY, {**headers(number=number), "Host": f"{HOST}:{port}"})
        reply = connection.getresponse()
        reply.read()
        assert reply.status == 200
    connection.close()
    assert [each.attempt for each in receiver.arrivals()] == [1, 2]
