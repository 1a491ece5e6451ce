"""Certificates and handshakes."""

import datetime
import ssl
import warnings

import pytest

from webhooks_app.core.ssrf import Rules
from webhooks_app.net import tls
from webhooks_app.net.http import build_transport
from webhooks_app.net.options import NetOptions

from .sending import HOST, request_to
from .servers import OK, Server, answers, drips_tls_record, hangs

PAST = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
FUTURE = datetime.datetime(2090, 1, 1, tzinfo=datetime.UTC)
DAY = datetime.timedelta(days=1)


def https(server: Server | int, **changes):
    port = server if isinstance(server, int) else server.port
    return request_to(port, url=f"https://{HOST}:{port}/in", **changes)


def test_a_good_certificate_and_a_kept_connection(serve, transport_to, authority):
    server = serve(answers(OK), context=authority.context(HOST))
    transport = transport_to(server)
    for _ in range(3):
        assert transport.post(https(server)).ok
    assert (server.connections, server.server_names) == (1, [HOST])


@pytest.mark.parametrize(
    ("make", "detail"),
    [
        (lambda a: a.context(HOST, not_before=PAST, not_after=PAST + DAY), "expired"),
        (lambda a: a.context(HOST, not_before=FUTURE, not_after=FUTURE + DAY), "not_yet_valid"),
        (lambda a: a.context("elsewhere.customer.com"), "wrong_host"),
        (lambda a: a.context("127.0.0.1"), "wrong_host"),
        (lambda a: a.context(HOST, issuer=a.unknown), "unknown_ca"),
        (lambda a: a.self_signed(), "self_signed"),
    ],
    ids=["expired", "not yet valid", "wrong host", "address only", "unknown CA", "self-signed"],
)
def test_bad_certificates(serve, transport_to, authority, make, detail):
    server = serve(answers(OK), context=make(authority))
    result = transport_to(server).post(https(server))
    assert (result.error, result.detail, result.http_status) == ("tls", detail, None)
    assert server.requests == []


def test_old_protocol(serve, transport_to, authority):
    context = authority.context(HOST)
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    server = serve(answers(OK), context=context)
    assert transport_to(server).post(https(server)).error == "tls"


def test_a_client_certificate_is_demanded(serve, transport_to, authority):
    context = authority.context(HOST)
    context.verify_mode = ssl.CERT_REQUIRED
    authority.trusted.configure_trust(context)
    server = serve(answers(OK), context=context)
    result = transport_to(server).post(https(server))
    assert result.error in {"tls", "reset"}
    assert server.requests == []


def test_plain_http_behind_https(serve, transport_to):
    server = serve(answers(b"HTTP/1.1 200 OK\r\n\r\n"))
    result = transport_to(server).post(https(server))
    assert result.error in {"tls", "timeout"}


class TestSlowHandshake:
    def test_silence(self, serve, transport_to):
        server = serve(hangs)
        result = transport_to(server).post(https(server, connect_timeout=0.3, total_timeout=5))
        assert (result.error, result.detail) == ("tls", "tls_timeout")
        assert result.duration_ms < 700

    def test_drip(self, serve, transport_to):
        def behave(connection):
            for byte in b"\x16\x03\x03\x40\x00" + b"\x02" * 10_000:
                connection.write(bytes([byte]))
                connection.pause(0.02)

        server = serve(behave)
        result = transport_to(server).post(https(server, connect_timeout=0.3, total_timeout=5))
        assert (result.error, result.detail) == ("tls", "tls_timeout")
        assert result.duration_ms < 700

    @pytest.mark.parametrize(("reset", "detail"), [(False, "closed"), (True, "reset")])
    def test_broken_off(self, serve, transport_to, reset, detail):
        def behave(connection):
            connection.socket.recv(65536)
            if reset:
                connection.reset()

        server = serve(behave)
        result = transport_to(server).post(https(server))
        assert (result.error, result.detail) == ("tls", detail)


def test_a_drip_inside_one_record(serve, transport_to, authority):
    server = serve(drips_tls_record(authority.context(HOST)))
    result = transport_to(server).post(https(server, total_timeout=0.5))
    assert (result.error, result.detail) == ("timeout", "wait")
    assert result.duration_ms < 900


class TestBundle:
    def test_nothing_else_is_trusted(self, serve, transport_to, authority, tmp_path):
        other = tmp_path / "other.pem"
        authority.unknown.cert_pem.write_to_path(str(other))
        server = serve(answers(OK), context=authority.context(HOST))
        assert transport_to(server, ca_bundle=str(other)).post(https(server)).detail == "unknown_ca"
        assert transport_to(server, ca_bundle=None).post(https(server)).detail == "unknown_ca"

    def test_a_folder(self, tmp_path):
        assert tls.client_context(str(tmp_path)).verify_mode is ssl.CERT_REQUIRED

    def test_a_missing_bundle_is_an_error_at_once(self, tmp_path):
        with pytest.raises(OSError, match="No such file"):
            build_transport(NetOptions(ca_bundle=str(tmp_path / "nothing.pem")))

    def test_it_is_not_needed_for_plain_http(self, tmp_path):
        build_transport(NetOptions(rules=Rules(schemes=("http",)), ca_bundle=str(tmp_path / "nothing.pem")))

    def test_read_once(self, authority):
        assert tls.client_context(str(authority.bundle)) is tls.client_context(str(authority.bundle))
