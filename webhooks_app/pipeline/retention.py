"""How long an event may leave, and is kept: so many days from when it occurred. The one rule for everybody.

A tenant has its own days, as the host's class says where there is one, else as the table Tenant says; all
others have RETENTION_DAYS. Kept is an event by its own tenant's days. It may leave for an endpoint while that
holds, and the endpoint's own tenant's days are not over either: emit takes it, recovery selects it and the
lease sends it by that. What is past it never leaves, whether prune has removed it by then or not; until it
has, it can be read.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from math import inf

from ..conf import current
from ..models import Tenant
from .gates import Gate
from .tenancy import host
from .work import Content, Job

Days = Callable[[str | None], int]
# Nobody's are fewer: what is younger needs no look at whose it is.
LEAST = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Retention:
    """The days of all tenants: ``days`` asks for one (None: no tenant), ``shortest`` is a lower bound."""

    days: Days
    shortest: int

    def cutoff(self, now: datetime, *tenant_ids: str | None) -> datetime:
        """Return the moment up to which events are past the retention of one of these tenants."""
        return now - timedelta(days=min(map(self.days, tenant_ids)))


def retention(alias: str) -> Retention:
    """Return the retention of all tenants; the table is read once, here."""
    default = current().RETENTION_DAYS
    if host() is not None:
        return Retention(lru_cache(maxsize=None)(days_of), 0)
    rows = Tenant.objects.using(alias).filter(retention_days__gt=0)
    own: dict[str | None, int | None] = dict(rows.values_list("pk", "retention_days"))
    shortest = min([default, *(days for days in own.values() if days)])
    return Retention(lambda tenant_id: own.get(tenant_id) or default, shortest)


def read_days(alias: str, tenant_id: str | None) -> int:
    """Return the days of one tenant."""
    if tenant_id is None or host() is not None:
        return days_of(tenant_id)
    rows = Tenant.objects.using(alias).filter(pk=tenant_id)
    return days_of(tenant_id, rows.values_list("retention_days", flat=True).first())


def days_of(tenant_id: str | None, in_table: int | None = None) -> int:
    """Return the days of a tenant whose row in the table says `in_table`; the host's class goes before it."""
    own, days = host(), in_table
    if own is not None:
        days = None if tenant_id is None else own.retention_days(tenant_id)
    return days or current().RETENTION_DAYS


def leaves_until(job: Job, gate: Gate, content: Content | None) -> float:
    """Return until when a claimed delivery may leave, in seconds since 1970; a ping has occurred never."""
    if job.is_ping:
        return inf
    days = gate.retention_days
    if content is not None and content.retention_days is not None:
        days = min(days, content.retention_days)
    return job.occurred + timedelta(days=days).total_seconds()
