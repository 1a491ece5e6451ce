"""The servers that all measurements of a run share."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

from bench.processes import Receiver
from scripts.services import Postgres, Redis

TEMPLATE = "bench_template"


@dataclass(frozen=True, slots=True)
class Servers:
    """What runs for the whole run."""

    postgres: Postgres
    redis: Redis
    receiver: Receiver

    def copy_database(self, template: str, name: str) -> str:
        """Make a database like another one and return its URL; nobody may be connected to `template`."""
        self._admin(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        return self.postgres.url_of(name)

    def drop_database(self, name: str) -> None:
        """Remove a database, whoever is connected."""
        self._admin(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def checkpoint(self) -> None:
        """Write everything out now, so that earlier work does not disturb what comes."""
        self._admin("CHECKPOINT")

    def _admin(self, statement: str) -> None:
        self.postgres.sql(statement, database="postgres")


@contextlib.contextmanager
def started() -> Iterator[Servers]:
    """Start the servers, set Django up and make the empty database that measurements copy."""
    postgres = Postgres(settings={"shared_buffers": "512MB", "max_wal_size": "4GB"})
    with postgres, Redis() as redis, Receiver() as receiver:
        servers = Servers(postgres, redis, receiver)
        os.environ |= {
            "DJANGO_SETTINGS_MODULE": "bench.settings",
            "BENCH_DATABASE_URL": postgres.create_database(TEMPLATE),
            "BENCH_BROKER_URL": redis.url,
            "BENCH_PORTS": f"{receiver.port},{receiver.tls_port}",
            "BENCH_CA": str(receiver.ca),
        }
        _set_up()
        yield servers


def _set_up() -> None:
    import django
    from django.core.management import call_command
    from django.db import connections

    django.setup()
    from bench import celeryapp  # noqa: F401

    call_command("migrate", run_syncdb=True, verbosity=0)
    connections.close_all()
