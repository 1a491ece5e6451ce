"""The engine's own database connection: bound by the server, with prepared statements where that is safe.

The path runs a few dozen statements of constant text, thousands of times. Prepared, one event at a time costs
PostgreSQL a third less. Behind a transaction pooler a prepared statement may be unknown to the next server
session, so they are used only on a direct connection.
"""

import logging
from typing import Any

from django.db import connections

logger = logging.getLogger("webhooks_app.pipeline")

PREPARE_AFTER = 3


def dedicate(alias: str) -> None:
    """Give the calling thread a PostgreSQL connection of its own kind; other databases keep theirs.

    Raises:
        DatabaseError: the server does not answer.
    """
    shared = connections[alias]
    if shared.vendor != "postgresql" or shared.in_atomic_block or "pool" in shared.settings_dict["OPTIONS"]:
        return
    direct = _is_direct(shared)
    shared.close()
    own = shared.copy()
    own.settings_dict["OPTIONS"] = {
        **own.settings_dict["OPTIONS"],
        "server_side_binding": True,
        "prepare_threshold": PREPARE_AFTER if direct else None,
    }
    connections[alias] = own


def _is_direct(connection: Any) -> bool:
    """Whether no pooler stands between: one tells its clients another process id than the server's."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return bool(cursor.fetchone()[0] == connection.connection.info.backend_pid)
