"""The bench's receiver: what it counts, and what it makes of pieces."""

import pytest

from bench.receiver import Book, Connection, Group, percentile

REQUEST = b"POST /fast/0/ HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n" + b'{"t":1.25}'


class Transport:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return False


@pytest.fixture
def book() -> Book:
    return Book()


def _connected(book: Book) -> tuple[Connection, Transport]:
    connection, transport = Connection(book), Transport()
    connection.connection_made(transport)  # type: ignore[arg-type]
    return connection, transport


@pytest.mark.parametrize("cut", [1, 20, len(REQUEST) - 11, len(REQUEST) - 1])
def test_a_request_in_two_pieces_counts_once(book: Book, cut: int):
    connection, transport = _connected(book)
    connection.data_received(REQUEST[:cut])
    assert book.answer("count") == 0
    connection.data_received(REQUEST[cut:])
    assert book.answer("count") == 1
    assert transport.written.count(b"200 OK") == 1


def test_two_requests_in_one_piece_count_twice(book: Book):
    connection, transport = _connected(book)
    connection.data_received(REQUEST * 2)
    assert book.groups["fast"].count == 2
    assert book.groups["fast"].open == 0
    assert transport.written.count(b"200 OK") == 2


def test_the_latency_is_taken_from_the_body(book: Book):
    book.note("fast", b'{"data":{"t":7.5,"x":1}}', 7.75)
    book.note("fast", b'{"data":{}}', 9.0)
    stats = book.groups["fast"].stats()
    assert (stats["count"], stats["timed"], stats["p50_ms"], stats["last_at"]) == (2, 1, 250.0, 9.0)


def test_reset_forgets(book: Book):
    book.note("fast", b"", 1.0)
    connection, transport = _connected(book)
    connection.data_received(b"GET /-/reset HTTP/1.1\r\n\r\n")
    assert transport.written.endswith(b"\r\n\r\n{}")
    assert book.answer("count") == 0


@pytest.mark.parametrize(
    ("share", "expected"), [(0, 1.0), (50, 50.0), (95, 95.0), (99, 99.0), (99.5, 100.0), (100, 100.0)]
)
def test_percentiles_are_nearest_ranks(share: float, expected: float):
    assert percentile([float(number) for number in range(1, 101)], share) == expected


def test_without_latencies_there_are_no_percentiles():
    assert percentile([], 50) == 0.0
    assert "p50_ms" not in Group().stats()
