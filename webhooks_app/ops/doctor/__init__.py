"""Doctor: a live examination of an installation, one subject after another, each fault with its remedy."""

from collections.abc import Callable, Iterator

from django.db import DatabaseError

from ...conf import load
from . import database, flow, surroundings
from .finding import Finding, Level, failed

__all__ = ["Finding", "Level", "examine"]

Check = Callable[[], Iterator[Finding]]

# In the order in which one fault explains the next.
CHECKS: tuple[tuple[str, Check], ...] = (
    ("databases", database.check_databases),
    ("broker", surroundings.check_broker),
    ("master keys", surroundings.check_master_keys),
    ("clock", database.check_clock),
    ("DNS", surroundings.check_dns),
    ("guard", surroundings.check_guard),
    ("outbox", flow.check_outbox),
    ("outbox", flow.check_set_aside),
    ("tick", flow.check_tick),
    ("deliveries", flow.check_due),
    ("jobs", flow.check_jobs),
    ("webhooks", flow.check_endpoints),
)


def examine() -> Iterator[Finding]:
    """Yield findings as they come. Never raises: a check that cannot be made is a finding too."""
    yield from surroundings.check_settings()
    if load()[1]:
        yield Finding(Level.SKIPPED, "everything else", "not checked: the settings come first")
        return
    for subject, check in CHECKS:
        yield from _careful(subject, check)


def _careful(subject: str, check: Check) -> Iterator[Finding]:
    try:
        yield from check()
    except DatabaseError as error:
        message = f"not checked: the database does not answer as it should ({type(error).__name__})"
        yield Finding(Level.SKIPPED, subject, message)
    except Exception as error:  # an examination must reach its end
        yield failed(subject, f"the check itself failed ({type(error).__name__})", "Report this as a bug.")
