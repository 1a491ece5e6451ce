"""The receiver, a process of its own: `python -m bench.receiver PORT TLS_PORT CERTIFICATE KEY`.

    POST /{group}/{milliseconds}/{anything}   answers 200 after that time; counted under the group
    GET  /-/count                             requests received so far
    GET  /-/stats                             figures of each group
    GET  /-/reset                             forget everything

A body with `"t":<monotonic seconds>` gives a latency; all processes of a machine share that clock.
"""

import asyncio
import json
import re
import ssl
import sys
import time
from dataclasses import dataclass, field
from typing import Any

_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE)
_SENT_AT = re.compile(rb'"t":([0-9.]+)')
_OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"


@dataclass(slots=True)
class Group:
    """What arrived under one first path segment. Latencies in seconds, `last_at` monotonic."""

    count: int = 0
    open: int = 0
    peak: int = 0
    last_at: float = 0.0
    latencies: list[float] = field(default_factory=list)

    def stats(self) -> dict[str, Any]:
        """Return the figures; latencies in milliseconds."""
        ordered = sorted(self.latencies)
        figures = {f"p{share}_ms": round(percentile(ordered, share) * 1000, 1) for share in (50, 95, 99, 100)}
        counts = {"count": self.count, "timed": len(ordered), "open": self.open, "peak": self.peak}
        return {**counts, "last_at": self.last_at, **(figures if ordered else {})}


def percentile(ordered: list[float], share: float) -> float:
    """Return the value that `share` percent of the sorted values do not exceed (nearest rank)."""
    if not ordered:
        return 0.0
    rank = -(-len(ordered) * share // 100)
    return ordered[max(0, min(len(ordered), int(rank)) - 1)]


class Book:
    """Everything received."""

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}

    def note(self, group_name: str, body: bytes, now: float) -> Group:
        """Count one request."""
        group = self.groups.get(group_name)
        if group is None:
            group = self.groups[group_name] = Group()
        group.count += 1
        group.open += 1
        group.peak = max(group.peak, group.open)
        group.last_at = now
        if match := _SENT_AT.search(body):
            group.latencies.append(now - float(match[1]))
        return group

    def answer(self, question: str) -> object:
        """Answer a request about the book itself."""
        if question == "reset":
            self.groups = {}
        if question == "count":
            return sum(group.count for group in self.groups.values())
        return {name: group.stats() for name, group in self.groups.items()}


class Connection(asyncio.Protocol):
    """One kept connection; just enough HTTP/1.1 for requests with a Content-Length."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._buffer = b""
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while self._take_request():
            pass

    def _take_request(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return False
        match = _LENGTH.search(self._buffer, 0, end)
        total = end + 4 + (int(match[1]) if match else 0)
        if len(self._buffer) < total:
            return False
        request, self._buffer = self._buffer[:total], self._buffer[total:]
        self._handle(request.split(b" ", 2)[1].decode(), request[end + 4 :])
        return bool(self._buffer)

    def _handle(self, path: str, body: bytes) -> None:
        _, group_name, second, *_ = path.split("/")
        if group_name == "-":
            text = json.dumps(self._book.answer(second)).encode()
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(text), text))
            return
        group = self._book.note(group_name, body, time.monotonic())
        if second == "0":
            self._reply(group)
        else:
            asyncio.get_running_loop().call_later(int(second) / 1000, self._reply, group)

    def _reply(self, group: Group) -> None:
        group.open -= 1
        if not self._transport.is_closing():
            self._transport.write(_OK)


async def serve(port: int, tls_port: int, certificate: str, key: str) -> None:
    """Serve both ports for ever."""
    book, loop = Book(), asyncio.get_running_loop()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    for each, tls in ((port, None), (tls_port, context)):
        await loop.create_server(lambda: Connection(book), "127.0.0.1", each, ssl=tls, backlog=4096)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]))
