"""The other end: a consumer's HTTPS server on loopback that answers by script and keeps the raw bytes."""

from collections import deque
from dataclasses import dataclass

from tests.net.servers import OK, Connection, Server

HOST = "hooks.customer.com"


@dataclass(frozen=True)
class Request:
    """One request as it came over the wire."""

    head: bytes
    body: bytes

    @property
    def line(self) -> str:
        """The request line."""
        return self.head.split(b"\r\n", 1)[0].decode("ascii")

    @property
    def rows(self) -> list[tuple[str, str]]:
        """The header rows in their order, names as spelt."""
        lines = self.head.decode("ascii").split("\r\n")[1:]
        return [(name, value) for name, _, value in (line.partition(": ") for line in lines)]

    @property
    def headers(self) -> dict[str, str]:
        """The headers by name in lower case; a name that came twice is a failure."""
        headers = {name.lower(): value for name, value in self.rows}
        assert len(headers) == len(self.rows), "a header came twice"
        return headers


class Consumer:
    """Answers each request with the next scripted reply, then always with the same one."""

    def __init__(self, server: type[Server], context: object, *, always: bytes = OK) -> None:
        self.always = always
        self.script: deque[tuple[bytes, bool]] = deque()
        self.server = server(self._behave, context=context)  # type: ignore[arg-type]

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"https://{HOST}:{self.server.port}/in"

    @property
    def requests(self) -> list[Request]:
        """What came so far, oldest first."""
        return [Request(head, body) for head, body in self.server.requests]

    def answer(self, *replies: bytes, close: bool = False) -> None:
        """Give these replies to the next requests, one each; `close` the connection after each."""
        self.script.extend((reply, close) for reply in replies)

    def _behave(self, connection: Connection) -> None:
        close = False
        while not close:
            connection.read()
            reply, close = self.script.popleft() if self.script else (self.always, False)
            connection.write(reply)
