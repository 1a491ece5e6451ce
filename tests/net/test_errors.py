"""From exceptions to error codes, also for those that mocks of `requests` raise."""

import errno
import http.client
import ssl

import pytest
import requests
import responses
import urllib3

from webhooks_app.core.ssrf import Refused
from webhooks_app.net.errors import failure_of
from webhooks_app.net.limits import BODY, CONNECT, DNS, SEND, TLS, WAIT, Budget, TooMuchData
from webhooks_app.net.options import NetOptions
from webhooks_app.net.resolver import ResolutionError

from .sending import HOST, request_to
from .servers import OK, answers, hangs


def wrapped(error, by):
    """What urllib3 and requests make of an exception."""
    try:
        try:
            raise error
        except Exception as inner:
            raise by from inner
    except Exception as outer:
        return requests.ConnectionError(urllib3.exceptions.MaxRetryError(None, "/", outer))


def failure(error, phase):
    budget = Budget(request_to(80), NetOptions())
    budget.phase = phase
    return tuple(failure_of(error, budget))


POOL = urllib3.HTTPConnectionPool(HOST)


@pytest.mark.parametrize(
    ("error", "phase", "expected"),
    [
        (Refused("R9", "no"), CONNECT, ("ssrf_blocked", "R9")),
        (ResolutionError("not_found"), DNS, ("dns", "not_found")),
        (TooMuchData(), WAIT, ("invalid_response", "too_large")),
        (TimeoutError(), DNS, ("dns", "dns_timeout")),
        (TimeoutError(), CONNECT, ("connect", "connect_timeout")),
        (TimeoutError(), TLS, ("tls", "tls_timeout")),
        (TimeoutError(), SEND, ("timeout", "send")),
        (TimeoutError(), WAIT, ("timeout", "wait")),
        (TimeoutError(), BODY, ("timeout", "body")),
        (OSError(errno.ENETUNREACH, "x"), CONNECT, ("connect", "unreachable")),
        (OSError(errno.EMFILE, "x"), CONNECT, ("connect", "failed")),
        (OSError(errno.EIO, "x"), WAIT, ("reset", "failed")),
        (ConnectionResetError(), CONNECT, ("connect", "reset")),
        (BrokenPipeError(), SEND, ("reset", "reset")),
        (http.client.RemoteDisconnected(), WAIT, ("reset", "closed")),
        (ssl.SSLEOFError(), TLS, ("tls", "closed")),
        (ssl.SSLZeroReturnError(), WAIT, ("reset", "closed")),
        (ssl.SSLError(1, "x"), TLS, ("tls", "failed")),
        (http.client.HTTPException("got more"), WAIT, ("invalid_response", "too_many_headers")),
        (http.client.UnknownProtocol("x"), WAIT, ("invalid_response", "bad_status")),
        (http.client.CannotSendRequest(), WAIT, ("invalid_response", "malformed")),
        (urllib3.exceptions.HTTPError("x"), WAIT, ("invalid_response", "malformed")),
        (UnicodeError("x"), WAIT, ("invalid_response", "malformed")),
        (requests.ConnectTimeout(), DNS, ("connect", "connect_timeout")),
        (requests.ReadTimeout(), DNS, ("timeout", "wait")),
        (requests.exceptions.SSLError(), DNS, ("tls", "failed")),
        (requests.ConnectionError(), WAIT, ("reset", "failed")),
        (wrapped(ConnectionRefusedError(), urllib3.exceptions.NewConnectionError(POOL, "x")), CONNECT,
         ("connect", "refused")),
        (wrapped(TimeoutError(), urllib3.exceptions.ConnectTimeoutError(POOL, "x")), CONNECT,
         ("connect", "connect_timeout")),
        (wrapped(TimeoutError(), urllib3.exceptions.ReadTimeoutError(POOL, "/", "x")), TLS,
         ("tls", "tls_timeout")),
        (wrapped(ConnectionResetError(), urllib3.exceptions.ProtocolError("x")), WAIT, ("reset", "reset")),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)  # fmt: skip
def test_failures(error, phase, expected):
    assert failure(error, phase) == expected


def test_a_slip_of_ours_is_not_hidden():
    with pytest.raises(ZeroDivisionError):
        failure(ZeroDivisionError(), WAIT)


def test_what_the_caller_is_handling_is_none_of_our_business(serve, transport_to):
    server = serve(hangs)
    try:
        raise ssl.SSLError(1, "the database's")
    except ssl.SSLError:
        assert transport_to(server).post(request_to(server, total_timeout=0.2)).error == "timeout"


class TestResponsesLibrary:
    """`HTTPAdapter.send` is not overridden: what patches it works. Names and headers are still checked."""

    URL = f"https://{HOST}/in"

    @pytest.fixture
    def mock(self):
        with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
            yield mock

    @pytest.fixture
    def post(self, transport_to):
        transport = transport_to(443)
        return lambda **changes: transport.post(request_to(443, **{"url": self.URL} | changes))

    def test_a_reply(self, mock, post, dns):
        mock.post(self.URL, body=b"x" * 5000, status=429, headers={"Retry-After": "7"})
        result = post()
        assert (result.error, result.http_status, result.header("retry-after")) == ("status_4xx", 429, "7")
        assert (len(result.body), result.body_complete) == (4096, False)
        assert mock.calls[0].request.headers["webhook-id"] == "evt_1"
        assert dns.asked == []

    def test_a_redirect(self, mock, post):
        mock.post(self.URL, status=302, headers={"Location": f"https://{HOST}/other"})
        assert (post().error, len(mock.calls)) == ("redirect", 1)

    @pytest.mark.parametrize(
        ("raised", "error"),
        [
            (requests.ConnectTimeout(), "connect"),
            (requests.ReadTimeout(), "timeout"),
            (requests.exceptions.SSLError(), "tls"),
            (ConnectionResetError(), "reset"),
        ],
    )
    def test_an_exception(self, mock, post, raised, error):
        mock.post(self.URL, body=raised)
        assert post().error in {error, "dns" if error == "reset" else error}

    def test_the_guard_for_names_still_runs(self, mock, post):
        assert post(url="https://localhost/").error == "ssrf_blocked"
        assert len(mock.calls) == 0


def test_after_the_mock_the_real_thing(serve, transport_to):
    server = serve(answers(OK))
    transport = transport_to(server)
    with responses.RequestsMock() as mock:
        mock.post(request_to(server).url, status=204)
        assert transport.post(request_to(server)).http_status == 204
    assert transport.post(request_to(server)).http_status == 200
