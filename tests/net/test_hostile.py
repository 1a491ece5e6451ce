"""Receivers that drip, pour, break off and talk nonsense: every attempt ends in time, with its own code."""

import time
import tracemalloc
import zlib

import pytest

from webhooks_app.net.replies import MAX_HEADER_BYTES, MAX_HEADER_VALUE, MAX_HEADERS

from .sending import request_to
from .servers import OK, answers, answers_once, breaks, drips, hangs, pours, reply

ENDLESS_HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def post(transport, server, **changes):
    """Send, and check that the attempt ended within its total time and a little scheduling."""
    request = request_to(server, **changes)
    started = time.monotonic()
    result = transport.post(request)
    assert time.monotonic() - started < request.total_timeout + 0.4
    return result


class TestDrip:
    @pytest.mark.parametrize(
        "behaviour",
        [
            drips(b"HTTP/1.1 200 OK and on and on"),
            drips(b"X-A: b\r\n", first=b"HTTP/1.1 200 OK\r\n"),
            drips(b"HTTP/1.1 100 Continue\r\n\r\n"),
        ],
        ids=["status line", "headers", "interim answers"],
    )
    def test_before_the_status(self, serve, transport_to, behaviour):
        server = serve(behaviour)
        result = post(transport_to(server), server, total_timeout=0.4)
        assert (result.error, result.detail, result.http_status) == ("timeout", "wait", None)

    def test_in_the_body_of_a_success(self, serve, transport_to):
        server = serve(drips(b"x", first=ENDLESS_HEAD))
        result = post(transport_to(server), server)
        assert (result.error, result.http_status, result.detail) == ("", 200, "body_timeout")
        assert not result.body_complete
        assert 0 < len(result.body) < 100

    def test_the_body_has_a_short_leash_of_its_own(self, serve, transport_to):
        server = serve(drips(b"x", first=ENDLESS_HEAD))
        result = transport_to(server, body_timeout=0.2).post(request_to(server, total_timeout=30))
        assert result.ok
        assert result.duration_ms < 1000

    def test_in_the_body_of_a_failure(self, serve, transport_to):
        server = serve(
            drips(b"x", first=b"HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 999\r\n\r\n")
        )
        result = post(transport_to(server), server)
        assert (result.error, result.http_status, result.header("retry-after")) == ("status_5xx", 503, "7")

    def test_silence(self, serve, transport_to):
        server = serve(hangs)
        result = post(transport_to(server), server, total_timeout=0.3)
        assert (result.error, result.detail) == ("timeout", "wait")

    def test_the_callers_deadline_counts_too(self, serve, transport_to):
        server = serve(hangs)
        result = post(transport_to(server), server, deadline=time.monotonic() + 0.2)
        assert result.error == "timeout"
        assert result.duration_ms < 500

    def test_a_receiver_that_never_reads(self, serve, transport_to):
        server = serve(lambda connection: connection.pause(5), receive_buffer=4096)
        result = post(transport_to(server), server, body=b"x" * 8_000_000)
        assert (result.error, result.detail) == ("timeout", "send")

    def test_a_receiver_that_never_reads_and_the_callers_deadline(self, serve, transport_to):
        server = serve(lambda connection: connection.pause(5), receive_buffer=4096)
        soon = time.monotonic() + 1
        result = post(transport_to(server), server, body=b"x" * 8_000_000, deadline=soon)
        assert (result.error, result.duration_ms < 2000) == ("timeout", True)


class TestPour:
    @pytest.mark.parametrize(
        ("head", "block"),
        [
            (ENDLESS_HEAD, b"x" * 65536),
            (CHUNKED, b"10000\r\n" + b"c" * 65536 + b"\r\n"),
            (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65536),
        ],
        ids=["length", "chunks", "until closed"],
    )
    def test_endless_body(self, serve, transport_to, head, block):
        server = serve(pours(head, block))
        transport = transport_to(server)
        result = post(transport, server, reply_bytes=5000)
        assert (result.error, result.http_status) == ("", 200)
        assert (len(result.body), result.body_complete) == (5000, False)
        post(transport, server)
        assert server.connections == 2

    @pytest.mark.parametrize(
        ("head", "block"),
        [
            (b"HTTP/1.1 200 OK\r\n", b"X-A: " + b"a" * 1000 + b"\r\n"),
            (b"HTTP/1.1 200 OK\r\nX-A: ", b"a" * 65536),
            (b"HTTP/1.1 ", b"a" * 65536),
            (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
            (b"", b"\x00" * 65536),
        ],
        ids=["headers", "header line", "status line", "interim answers", "zeros"],
    )
    def test_endless_head(self, serve, transport_to, head, block):
        server = serve(pours(head, block))
        result = post(transport_to(server), server)
        assert (result.error, result.http_status) == ("invalid_response", None)
        assert result.detail in {"too_large", "too_many_headers", "line_too_long", "bad_status"}

    def test_endless_chunk_extension_after_a_success(self, serve, transport_to):
        server = serve(pours(CHUNKED + b"5;", b"e" * 65536))
        result = post(transport_to(server), server)
        assert (result.error, result.body) == ("", b"")
        assert result.detail.startswith("body_")

    def test_memory_stays_flat(self, serve, transport_to):
        server = serve(pours(CHUNKED, b"10000\r\n" + b"c" * 65536 + b"\r\n"))
        transport = transport_to(server)
        transport.post(request_to(server))
        tracemalloc.start()
        try:
            transport.post(request_to(server, reply_bytes=65_536))
            assert tracemalloc.get_traced_memory()[1] < 2_000_000
        finally:
            tracemalloc.stop()

    def test_a_bomb_is_not_unpacked(self, serve, transport_to):
        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
        bomb = b"".join(packer.compress(b"\0" * (1 << 20)) for _ in range(32)) + packer.flush()
        server = serve(answers(reply("200 OK", bomb, "Content-Encoding: gzip")))
        result = post(transport_to(server), server)
        assert result.ok
        assert result.body == bomb[:4096]

    def test_bad_gzip_is_only_a_body(self, serve, transport_to):
        server = serve(answers(reply("200 OK", b"plain text", "Content-Encoding: gzip")))
        result = post(transport_to(server), server)
        assert (result.error, result.body, result.detail) == ("", b"plain text", "")


class TestBreak:
    @pytest.mark.parametrize(
        ("partial", "reset", "detail"),
        [
            (b"", False, "closed"),
            (b"", True, "reset"),
            (b"HTTP/1.1 200 OK\r\nX-A:", True, "reset"),
        ],
    )
    def test_before_the_status(self, serve, transport_to, partial, reset, detail):
        server = serve(breaks(partial, reset=reset))
        result = post(transport_to(server), server)
        assert (result.error, result.detail, result.http_status) == ("reset", detail, None)
        assert (server.connections, len(server.requests)) == (1, 1)

    def test_before_the_request_is_read(self, serve, transport_to):
        server = serve(lambda connection: connection.reset())
        result = post(transport_to(server), server, body=b"x" * 1_000_000)
        assert result.error in {"reset", "connect"}
        assert server.connections == 1

    @pytest.mark.parametrize(
        ("partial", "detail"),
        [
            (b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nhello", "body_incomplete"),
            (CHUNKED + b"5\r\nhello\r\n", "body_incomplete"),
            (CHUNKED + b"5\r\nhello\r\nnonsense\r\n", "body_incomplete"),
        ],
    )
    def test_a_broken_body_after_success(self, serve, transport_to, partial, detail):
        server = serve(answers_once(partial))
        result = post(transport_to(server), server)
        assert (result.error, result.http_status, result.detail) == ("", 200, detail)
        assert (result.body, result.body_complete) == (b"hello", False)

    def test_reset_after_success(self, serve, transport_to):
        server = serve(breaks(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n", reset=True))
        result = post(transport_to(server), server)
        assert (result.error, result.http_status) in {("", 200), ("reset", None)}

    def test_nobody_listens(self, serve, transport_to):
        server = serve(hangs)
        server.close()
        result = post(transport_to(server), server)
        assert (result.error, result.detail, result.target_ip) == ("connect", "refused", None)


class TestNonsense:
    @pytest.mark.parametrize(
        "answer",
        [
            b"SSH-2.0-OpenSSH_9.6\r\n",
            b"just a text\r\n",
            b"\r\n",
            b"HTTP/1.1 0200 OK\r\n\r\n",
            b"HTTP/1.1 +200 OK\r\n\r\n",
            b"HTTP/1.1 20 OK\r\n\r\n",
            b"HTTP/1.1 099 OK\r\n\r\n",
            b"HTTP/1.1 OK 200\r\n\r\n",
            b"HTTP/2.0 200 OK\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x80\r\n",
            bytes((i * 7 + 13) % 256 for i in range(512)),
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 0200 OK\r\n\r\n",
        ],
    )
    def test_no_status(self, serve, transport_to, answer):
        server = serve(answers_once(answer))
        result = post(transport_to(server), server)
        assert (result.error, result.detail, result.http_status) == ("invalid_response", "bad_status", None)

    @pytest.mark.parametrize("status", [101, 600, 999])
    def test_absurd_status(self, serve, transport_to, status):
        server = serve(answers(reply(f"{status} Odd", b""), OK))
        transport = transport_to(server)
        result = post(transport, server)
        assert (result.error, result.http_status) == ("invalid_response", status)
        assert post(transport, server).ok == (status >= 600)

    @pytest.mark.parametrize(
        "answer",
        [
            b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nok",
            b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok",
            b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
            b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nok",
            b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nok",
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            b"HTTP/1.1 102 x\r\n\r\nHTTP/1.1 103 x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nok\r\n0\r\nX-T: 1\r\n\r\n",
        ],
    )
    def test_odd_but_clear(self, serve, transport_to, answer):
        server = serve(answers_once(answer))
        result = post(transport_to(server), server)
        assert (result.error, result.http_status, result.body, result.body_complete) == ("", 200, b"ok", True)

    @pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
    def test_no_body_whatever_the_header_says(self, serve, transport_to, status):
        server = serve(answers(f"HTTP/1.1 {status}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()))
        transport = transport_to(server, body_timeout=5)
        for _ in range(2):
            result = post(transport, server)
            assert (result.http_status, result.body, result.body_complete) == (int(status[:3]), b"", True)
            assert result.duration_ms < 300
        assert server.connections == 2


class TestReplyHeaders:
    @pytest.mark.parametrize(
        ("rows", "detail"),
        [
            ([f"X-{n}: v" for n in range(120)], "too_many_headers"),
            (["X-A: " + "a" * 70_000], "line_too_long"),
        ],
    )
    def test_monsters(self, serve, transport_to, rows, detail):
        server = serve(answers(reply("200 OK", b"ok", *rows)))
        result = post(transport_to(server), server)
        assert (result.error, result.detail) == ("invalid_response", detail)

    def test_bytes_in_retry_after(self, serve, transport_to):
        server = serve(answers(reply("429 Slow", b"", "Retry-After: \xff\xfe", "X-A: a\x00b\x7f\x85c")))
        result = post(transport_to(server), server)
        assert (result.error, result.http_status) == ("status_4xx", 429)
        assert result.header("retry-after") == "\xff\xfe"
        assert result.header("x-a") == "a\ufffdb\ufffd\ufffdc"

    def test_many_rows_are_capped_but_steering_ones_are_kept(self, serve, transport_to):
        rows = [f"X-{n}: v" for n in range(90)]
        server = serve(answers(reply("429 Slow", b"", *rows, "Retry-After: 5", "webhook-delivery: disable")))
        result = post(transport_to(server), server)
        assert len(result.headers) == MAX_HEADERS
        assert (result.header("Retry-After"), result.header("Webhook-Delivery")) == ("5", "disable")

    def test_long_values_are_capped(self, serve, transport_to):
        rows = [f"X-{n}: " + "v" * 2000 for n in range(20)]
        server = serve(answers(reply("429 Slow", b"", *rows, "Retry-After: 5")))
        result = post(transport_to(server), server)
        assert max(len(value) for _, value in result.headers) == MAX_HEADER_VALUE
        assert sum(len(name) + len(value) for name, value in result.headers) <= MAX_HEADER_BYTES
        assert len(result.headers) >= 7
        assert result.header("retry-after") == "5"


def test_a_cut_reply_leaves_no_trace(serve, transport_to):
    """The rest of the body is in the reader's buffer already, so the socket looks idle."""
    server = serve(answers(reply(body=b"x" * 5000)))
    transport = transport_to(server)
    for _ in range(2):
        assert post(transport, server, reply_bytes=4096).body == b"x" * 4096
    assert server.connections == 2


def test_a_caller_who_wants_no_body(serve, transport_to):
    server = serve(answers(reply(body=b"")))
    transport = transport_to(server)
    for _ in range(2):
        result = post(transport, server, reply_bytes=0)
        assert (result.error, result.body) == ("", b"")


@pytest.mark.parametrize("kept", [0, 1, 2, 3])
def test_the_reply_is_cut_where_the_caller_says(serve, transport_to, kept):
    server = serve(answers(OK))
    result = post(transport_to(server), server, reply_bytes=kept)
    assert (result.body, result.body_complete) == (b"ok"[:kept], kept >= 2)
