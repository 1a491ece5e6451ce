"""The engine's own database connection: impatient, bound by the server, prepared where that is safe.

The path runs a few dozen statements of constant text, thousands of times. Prepared, one event at a time costs
PostgreSQL a third less. Behind a transaction pooler a prepared statement may be unknown to the next server
session, so they are used only on a direct connection.
"""

import logging
from collections.abc import Iterable
from typing import Any

from django.db import connections

logger = logging.getLogger("webhooks_app.pipeline")

PREPARE_AFTER = 3
# A server that swallows packets must not hold the engine for minutes; what the host has set wins.
_IMPATIENCE = {
    "connect_timeout": 3,
    "keepalives_idle": 10,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}


def dedicate_all(aliases: Iterable[str]) -> None:
    """Do so for these databases; one that does not answer is logged, and is asked again when it is used."""
    for alias in dict.fromkeys(aliases):
        try:
            dedicate(alias)
        except Exception as error:  # the ordinary connection does as well; it only costs more
            logger.warning("database %s does not answer at start: %s", alias, type(error).__name__)


def dedicate(alias: str) -> None:
    """Give the calling thread a PostgreSQL connection of its own kind; other databases keep theirs.

    Raises:
        DatabaseError: the server does not answer; the connection is of its own kind all the same.
    """
    shared = connections[alias]
    if shared.vendor != "postgresql" or shared.in_atomic_block or "pool" in shared.settings_dict["OPTIONS"]:
        return
    shared.close()
    own = shared.copy()
    options = {**_IMPATIENCE, **own.settings_dict["OPTIONS"], "server_side_binding": True}
    own.settings_dict["OPTIONS"] = {**options, "prepare_threshold": None}
    connections[alias] = own
    if _is_direct(own):
        own.settings_dict["OPTIONS"] = {**options, "prepare_threshold": PREPARE_AFTER}
        own.connection.prepare_threshold = PREPARE_AFTER


def forget_plans(alias: str) -> None:
    """Let the server plan prepared statements anew: plans made while a table was small outlive its growth."""
    raw: Any = connections[alias].connection
    if getattr(raw, "prepare_threshold", None) is not None:
        with connections[alias].wrap_database_errors:
            raw.execute("DISCARD PLANS", prepare=False)


def _is_direct(connection: Any) -> bool:
    """Whether no pooler stands between: one tells its clients another process id than the server's."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return bool(cursor.fetchone()[0] == connection.connection.info.backend_pid)
