"""What leaves the process, byte for byte, and what never does."""

import logging

import pytest

from webhooks_app import __version__

from .sending import HEADERS, HOST, request_to
from .servers import OK, Server, answers, reply

REDIRECTS = ("301 Moved", "302 Found", "303 See Other", "307 Temporary Redirect", "308 Permanent Redirect")


def test_a_success(serve, transport_to):
    server = serve(answers(reply("201 Created", b"done", "X-Request: 7")))
    result = transport_to(server).post(request_to(server))
    assert result.ok
    assert (result.http_status, result.body, result.body_complete) == (201, b"done", True)
    assert (result.detail, result.target_ip, result.header("x-request")) == ("", "127.0.0.1", "7")
    assert 0 <= result.duration_ms < 600


@pytest.mark.parametrize("tls", [False, True])
def test_exact_bytes_of_a_request(serve, transport_to, authority, tls):
    server = serve(answers(OK), context=authority.context(HOST) if tls else None)
    body = '{"ü": 1}\r\n'.encode()
    assert transport_to(server).post(request_to(server, "/in?a[]=%2f", body=body)).ok
    assert server.requests == [
        (
            f"POST /in?a[]=%2f HTTP/1.1\r\nHost: {HOST}:{server.port}\r\n"
            f"Content-Type: application/json\r\nwebhook-id: evt_1\r\n"
            f"User-Agent: django-webhooks-app/{__version__}\r\n"
            f"Accept-Encoding: identity\r\nContent-Length: 11".encode(),
            body,
        )
    ]
    assert server.server_names == ([HOST] if tls else [])


@pytest.mark.parametrize("method", ["PUT", "PATCH", "POST"])
def test_method_and_empty_body(serve, transport_to, method):
    server = serve(answers(OK))
    assert transport_to(server).post(request_to(server, method=method, body=b"")).ok
    head, body = server.requests[0]
    assert head.startswith(f"{method} /in HTTP/1.1\r\n".encode())
    assert b"Content-Length: 0" in head
    assert body == b""


def test_a_user_agent_of_the_caller_stays(serve, transport_to):
    server = serve(answers(OK))
    transport_to(server).post(request_to(server, headers=(("user-agent", "shop/1"),)))
    assert server.requests[0][0].lower().count(b"user-agent: shop/1") == 1
    assert server.requests[0][0].lower().count(b"user-agent") == 1


def test_a_large_body_arrives_whole(serve, transport_to):
    server = serve(answers(OK))
    body = bytes(range(256)) * 4096
    assert transport_to(server).post(request_to(server, body=body, total_timeout=5)).ok
    assert server.requests[0][1] == body


@pytest.mark.parametrize("status", REDIRECTS)
@pytest.mark.parametrize("location", ["canary", "/other", "", "same"])
def test_redirects_are_answers(serve, transport_to, status, location):
    canary = serve(answers(OK))
    server = serve(lambda connection: answers(reply(status, b"", f"Location: {where}"))(connection))
    where = {
        "canary": f"http://{HOST}:{canary.port}/",
        "same": f"http://{HOST}:{server.port}/in",
    }.get(location, location)
    result = transport_to(server, canary).post(request_to(server))
    assert (result.error, result.http_status) == ("redirect", int(status[:3]))
    assert (canary.connections, len(server.requests)) == (0, 1)


class TestEnvironment:
    @pytest.fixture(autouse=True)
    def hostile(self, serve, monkeypatch, tmp_path) -> Server:
        canary: Server = serve(answers(OK))
        netrc = tmp_path / "netrc"
        netrc.write_text("default login user password secret\n")
        monkeypatch.setenv("NETRC", str(netrc))
        for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{canary.port}")
        for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"):
            monkeypatch.setenv(name, str(tmp_path / "nothing"))
        return canary

    @pytest.mark.parametrize("tls", [False, True])
    def test_proxies_netrc_and_bundles_are_ignored(self, serve, transport_to, authority, hostile, tls):
        server = serve(answers(OK), context=authority.context(HOST) if tls else None)
        assert transport_to(server).post(request_to(server)).ok
        assert b"authorization" not in server.requests[0][0].lower()
        assert hostile.connections == 0

    def test_the_callers_authorization_is_untouched(self, serve, transport_to):
        server = serve(answers(OK))
        headers = (*HEADERS, ("Authorization", "Bearer abc"))
        assert transport_to(server).post(request_to(server, headers=headers)).ok
        assert b"Authorization: Bearer abc\r\n" in server.requests[0][0]


def test_cookies_are_never_sent(serve, transport_to):
    server = serve(answers(reply("200 OK", b"ok", "Set-Cookie: a=1", "Set-Cookie: b=2; Path=/")))
    transport = transport_to(server)
    results = [transport.post(request_to(server)) for _ in range(3)]
    assert all(b"cookie" not in head.lower() for head, _ in server.requests)
    assert [row for row in results[0].headers if row[0] == "Set-Cookie"] == [
        ("Set-Cookie", "a=1"),
        ("Set-Cookie", "b=2; Path=/"),
    ]


@pytest.mark.parametrize(
    "row",
    [
        ("X-A", "a\r\nX-Injected: 1"),
        ("X-A", "a\n b"),
        ("X-A", "tab\there"),
        ("X-A", "nul\x00"),
        ("X-A", "ünicode"),
        ("X-A", " blank"),
        ("X Y", "1"),
        ("", "1"),
        ("X:", "1"),
        ("Host", "evil.net"),
        ("content-length", "1"),
        ("Transfer-Encoding", "chunked"),
        ("Expect", "100-continue"),
        ("Cookie", "a=1"),
        ("Connection", "close"),
        ("Accept-Encoding", "gzip"),
        ("Webhook-Id", "evt_2"),
    ],
)
def test_bad_header_rows_send_nothing(serve, transport_to, row):
    server = serve(answers(OK))
    result = transport_to(server).post(request_to(server, headers=(*HEADERS, row)))
    assert (result.error, result.detail) == ("invalid_url", "header")
    assert server.connections == 0


@pytest.mark.parametrize("method", ["", "post", "GET /x HTTP/1.1\r\nX:", "PÖST"])
def test_bad_methods_send_nothing(serve, transport_to, method):
    server = serve(answers(OK))
    result = transport_to(server).post(request_to(server, method=method))
    assert (result.error, result.detail, server.connections) == ("invalid_url", "method", 0)


def test_urls_do_not_reach_the_logs(serve, transport_to, caplog):
    server = serve(answers(b"HTTP/1.1 200 OK\r\nnot a header\r\n\r\n"))
    with caplog.at_level(logging.DEBUG):
        transport_to(server).post(request_to(server, "/in?token=s3cret"))
        logging.getLogger("urllib3.connectionpool").debug("somebody else's line")
    from_urllib3 = [each.getMessage() for each in caplog.records if each.name.startswith("urllib3")]
    assert from_urllib3 == ["somebody else's line"]
    assert "s3cret" not in caplog.text
