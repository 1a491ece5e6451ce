"""A private Redis (or Valkey)."""

import shutil
from collections.abc import Sequence

from scripts.processes import Server, ServerError, ask


def find_program() -> str | None:
    """Return the path of the server program."""
    return shutil.which("redis-server") or shutil.which("valkey-server")


class Redis(Server):
    """Redis on a free loopback port.

    Args:
        persist: keep an append-only file, so that a restart brings the data back. Default: no.
    """

    name = "redis"

    def __init__(self, *, persist: bool = False) -> None:
        program = find_program()
        if program is None:
            raise ServerError("Redis is not installed (package redis-server)")
        super().__init__()
        self.program = program
        self.persist = persist
        self.url = f"redis://127.0.0.1:{self.port}/0"

    def command(self) -> Sequence[str]:
        return [
            self.program,
            *("--bind", "127.0.0.1"),
            *("--port", str(self.port)),
            *("--dir", str(self.folder)),
            *("--save", ""),
            *("--appendonly", "yes" if self.persist else "no"),
        ]

    def ready(self) -> bool:
        return ask(self.port, b"PING\r\n").startswith(b"+PONG")

    def flush(self) -> None:
        """Forget everything, as an operator's FLUSHALL does."""
        ask(self.port, b"FLUSHALL\r\n")
