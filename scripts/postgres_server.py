"""A private PostgreSQL."""

import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from scripts.processes import Server, ServerError

USER = "webhooks"
UNSAFE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
# No statistics that change while a test looks at plans.
STILL = {"autovacuum": "off"}


def find_bin() -> Path | None:
    """Return the folder of the newest PostgreSQL programs; Debian keeps them off the PATH."""
    folders = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if folders:
        return max(folders, key=lambda folder: float(folder.parent.name))
    initdb = shutil.which("initdb")
    return Path(initdb).resolve().parent if initdb else None


class Postgres(Server):
    """PostgreSQL on a free loopback port, without a password, database and role `webhooks`.

    Args:
        durable: keep fsync and autovacuum on (default). Off is for tests that never kill the server.
        settings: further server settings, e.g. {"max_connections": "50"}.
    """

    name = "postgres"
    stop_signal = signal.SIGINT  # "fast shutdown": open sessions are ended

    def __init__(self, *, durable: bool = True, settings: Mapping[str, str] | None = None) -> None:
        found = find_bin()
        if found is None:
            raise ServerError("PostgreSQL is not installed (package postgresql)")
        self.bin = found
        super().__init__()
        self.data = self.folder / "data"
        self.settings = self._defaults() | ({} if durable else UNSAFE | STILL) | dict(settings or {})
        self.url = self.url_of(USER)
        self._made = False

    def _defaults(self) -> dict[str, str]:
        return {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
            "max_connections": "200",
            "shared_buffers": "128MB",
            "timezone": "UTC",
            "jit": "off",
        }

    def url_of(self, database: str) -> str:
        """Return the URL of a database of this server."""
        return f"postgres://{USER}@127.0.0.1:{self.port}/{database}"

    def prepare(self) -> None:
        if self.data.exists():
            (self.data / "postmaster.pid").unlink(missing_ok=True)
            return
        options = ["--auth=trust", f"--username={USER}", "--encoding=UTF8", "--no-locale", "--no-sync"]
        self.run([str(self.bin / "initdb"), "-D", str(self.data), *options])

    def command(self) -> Sequence[str]:
        settings = [part for item in self.settings.items() for part in ("-c", "=".join(item))]
        return [str(self.bin / "postgres"), "-D", str(self.data), *settings]

    def ready(self) -> bool:
        """Whether queries are answered; makes the database the first time."""
        process = self.spawn([str(self.bin / "pg_isready"), "-q", *self._where()])
        if process.wait():
            return False
        if not self._made:
            self.create_database(USER)
            self._made = True
        return True

    def create_database(self, name: str) -> str:
        """Make an empty database and return its URL."""
        self.run([str(self.bin / "createdb"), *self._where(), "-U", USER, name])
        return self.url_of(name)

    def sql(self, statement: str, *, database: str = USER) -> str:
        """Run one statement and return its unaligned output."""
        options = ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", USER, "-d", database]
        return self.run([str(self.bin / "psql"), *self._where(), *options, "-c", statement]).strip()

    def _where(self) -> list[str]:
        return ["-h", "127.0.0.1", "-p", str(self.port)]
