"""Entries whose fan-out raises: tried one by one, and blamed only for what is theirs."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from django.db import InterfaceError, InternalError, OperationalError, ProgrammingError

from ..ids import new_id
from . import clock
from .dispatch import Entry, note_failure
from .transactions import Tx, logger, short

# The database is away or not migrated: no entry is to blame.
_NOT_THE_ENTRY = (OperationalError, InterfaceError, ProgrammingError, InternalError)
_CONTROL = "control"


class _PassedError(Exception):
    """The control went through; nothing of it is to stay."""


def sift(entries: Sequence[Entry], attempt: Callable[[Entry], bool]) -> tuple[dict[Entry, Exception], int]:
    """Attempt entries one by one, until one returns False; return what some raised, and how many passed.

    Raises:
        DatabaseError: the database is away: that is nobody's fault.
    """
    faults: dict[Entry, Exception] = {}
    passed = 0
    for entry in entries:
        try:
            if not attempt(entry):
                break
            passed += 1
        except _NOT_THE_ENTRY:
            raise
        except Exception as fault:  # whatever one entry raises must not stop the others
            faults[entry] = fault
    return faults, passed


def blame(outbox_alias: str, faults: dict[Entry, Exception], control: Callable[[Entry], bool] | None) -> None:
    """Count failures against their entries; where no entry passed, only if an entry's control passes.

    Raises:
        Exception: a fault that the control has too: it lies elsewhere, and every event of the tenant has it.
    """
    for entry, fault in faults.items():
        if control is not None and not control(entry):
            raise fault
        note_failure(outbox_alias, entry, fault, clock.db_now(outbox_alias))


def passes(alias: str, entry: Entry, attempt: Callable[[Tx, Entry], None]) -> bool:
    """Attempt the control: an event of the same tenant with nothing of its own; then undo it."""
    now = clock.db_now(alias)

    def work(tx: Tx) -> None:
        attempt(tx, _bare(entry, str(tx.dialect.time(now))))
        raise _PassedError

    try:
        short(alias, work)
    except _PassedError:
        return True
    except Exception as error:  # whatever it is, the entry has no part in it
        logger.error("no event can be fanned out for tenant %s: %s", entry.tenant_id, type(error).__name__)
    return False


def _bare(entry: Entry, now: str) -> Entry:
    return replace(
        entry,
        event_id=new_id("evt"),
        type=_CONTROL,
        owner_kind=None,
        owner_id=None,
        sequence=None,
        identity_id=None,
        subject=None,
        occurred_at=now,
        recorded_at=now,
        expires_at=None,
    )
