"""Loopback servers with bad manners: a `Server` runs one behaviour, a function of a connection.

Behaviours pace themselves with the server's stop event, so closing a server ends them at once.
"""

import contextlib
import datetime
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import trustme

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
LINGER_NOTHING = struct.pack("ii", 1, 0)


class Connection:
    """One accepted connection, and what the server knows about it."""

    def __init__(self, server: "Server", raw: socket.socket) -> None:
        self.server = server
        self.socket = raw
        self.buffer = b""

    def read(self) -> bytes:
        """Read one request; note it, and return its body. Raises EOFError at the end."""
        while b"\r\n\r\n" not in self.buffer:
            self._fill()
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        length = 0
        for line in head.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        while len(self.buffer) < length:
            self._fill()
        body, self.buffer = self.buffer[:length], self.buffer[length:]
        self.server.requests.append((head, body))
        return body

    def _fill(self) -> None:
        data = self.socket.recv(65536)
        if not data:
            raise EOFError
        self.buffer += data

    def write(self, data: bytes) -> None:
        self.socket.sendall(data)
        self.server.sent += len(data)

    def pause(self, seconds: float) -> None:
        """Wait, but not beyond the server's life."""
        if self.server.stopping.wait(seconds):
            raise EOFError

    def until_closed(self) -> None:
        """Wait until the client goes away."""
        while self.socket.recv(65536):
            pass

    def reset(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOTHING)
        self.socket.close()


Behaviour = Callable[[Connection], None]


class Server:
    """Accepts connections on a loopback port of its own, one thread for each."""

    def __init__(
        self,
        behaviour: Behaviour,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        context: ssl.SSLContext | None = None,
        receive_buffer: int = 0,
    ) -> None:
        self.behaviour, self.context = behaviour, context
        self.stopping = threading.Event()
        self.requests: list[tuple[bytes, bytes]] = []
        self.server_names: list[str | None] = []
        self.connections = self.sent = 0
        self.listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if receive_buffer:
            self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.listener.bind((host, port))
        self.listener.listen(64)
        self.port: int = self.listener.getsockname()[1]
        if context is not None:
            context.sni_callback = lambda _socket, name, _context: self.server_names.append(name)
        self._open: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                raw, _ = self.listener.accept()
            except OSError:
                return
            if self.stopping.is_set():
                raw.close()
                return
            self.connections += 1
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open.add(raw)
            thread = threading.Thread(target=self._serve, args=(raw,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, raw: socket.socket) -> None:
        with contextlib.suppress(EOFError, OSError), raw:
            if self.context is None:
                self.behaviour(Connection(self, raw))
                return
            with self.context.wrap_socket(raw, server_side=True) as wrapped:
                self._open.add(wrapped)
                self.behaviour(Connection(self, wrapped))

    def close(self) -> None:
        """Stop, and wait for every thread."""
        self.stopping.set()
        for each in [self.listener, *list(self._open)]:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join(5)


@contextlib.contextmanager
def black_holes(addresses: list[str]) -> Iterator[int]:
    """One port on several addresses whose accept queues are full: connecting there hangs."""
    with contextlib.ExitStack() as stack:
        port = 0
        for address in addresses:
            listener = stack.enter_context(socket.socket())
            listener.bind((address, port))
            listener.listen(0)
            port = listener.getsockname()[1]
            for _ in range(4):
                filler = stack.enter_context(socket.socket())
                filler.setblocking(False)
                filler.connect_ex((address, port))
        yield port


def answers(*replies: bytes) -> Behaviour:
    """Answer request after request on a connection, the last reply again and again."""

    def behave(connection: Connection) -> None:
        number = 0
        while True:
            connection.read()
            connection.write(replies[min(number, len(replies) - 1)])
            number += 1

    return behave


def answers_once(reply: bytes) -> Behaviour:
    """Answer the first request, then close."""

    def behave(connection: Connection) -> None:
        connection.read()
        connection.write(reply)

    return behave


def reply(status: str = "200 OK", body: bytes = b"ok", *rows: str) -> bytes:
    head = "".join(f"{row}\r\n" for row in (f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *rows))
    return head.encode("latin-1") + b"\r\n" + body


def drips(data: bytes, *, first: bytes = b"", pace: float = 0.02) -> Behaviour:
    """Answer `first` at once, then `data` byte by byte, for ever."""

    def behave(connection: Connection) -> None:
        connection.read()
        connection.write(first)
        while True:
            for byte in data:
                connection.write(bytes([byte]))
                connection.pause(pace)

    return behave


def pours(head: bytes, block: bytes) -> Behaviour:
    """Answer `head`, then `block` without end, as fast as the client takes it."""

    def behave(connection: Connection) -> None:
        connection.read()
        connection.write(head)
        while not connection.server.stopping.is_set():
            connection.write(block)

    return behave


def breaks(partial: bytes = b"", *, reset: bool = False) -> Behaviour:
    """Read a request, answer `partial`, then close, or reset, the connection."""

    def behave(connection: Connection) -> None:
        connection.read()
        connection.write(partial)
        if reset:
            connection.reset()

    return behave


def hangs(connection: Connection) -> None:
    """Read whatever comes, and say nothing."""
    connection.until_closed()


def drips_tls_record(context: ssl.SSLContext) -> Behaviour:
    """Shake hands, then answer with one large TLS record that arrives byte by byte."""

    def behave(connection: Connection) -> None:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing, server_side=True)

        def step(action: Callable[[], object]) -> None:
            while True:
                try:
                    action()
                    break
                except ssl.SSLWantReadError:
                    connection.write(outgoing.read())
                    incoming.write(connection.socket.recv(65536) or b"\x15")
            connection.write(outgoing.read())

        step(tls.do_handshake)
        step(lambda: tls.read(65536))
        tls.write(reply(body=b"x" * 8000))
        for byte in outgoing.read():
            connection.write(bytes([byte]))
            connection.pause(0.02)

    return behave


class Authority:
    """A certificate authority the sender trusts, and contexts with good and bad certificates."""

    def __init__(self, folder: Path) -> None:
        self.trusted, self.unknown = trustme.CA(), trustme.CA()
        self.bundle = folder / "ca.pem"
        self.trusted.cert_pem.write_to_path(str(self.bundle))

    def context(
        self, *names: str, issuer: trustme.CA | None = None, **dates: datetime.datetime
    ) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        (issuer or self.trusted).issue_cert(*names, **dates).configure_cert(context)
        return context

    def self_signed(self) -> ssl.SSLContext:
        """A context that shows an authority's own certificate."""
        issuer = trustme.CA()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with issuer.private_key_pem.tempfile() as key, issuer.cert_pem.tempfile() as certificate:
            context.load_cert_chain(certificate, key)
        return context
