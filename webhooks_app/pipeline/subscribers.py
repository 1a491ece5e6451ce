"""Reads the endpoints that may want a batch of events: one query, no cache."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from json import loads
from typing import Any

from ..core.matching import EventFacts, Subscription, wants
from ..core.ordering import NONE
from .transactions import Tx

# The same rows are read with every batch, so their compiled form is kept; long filters would fill the memory.
CACHED_SIZE = 1_000

_ENDPOINTS = """SELECT e.id, e.tenant_id, e.partner_id, e.environment, e.events, e.identity_ids,
e.ordering
FROM webhooks_app_endpoint e JOIN webhooks_app_endpointstate s ON s.endpoint_id = e.id
WHERE e.deleted_at IS NULL AND s.enabled AND ({tenants} OR {partners}
OR (e.tenant_id IS NULL AND e.partner_id IS NULL)) AND e.id > %s ORDER BY e.id"""


@dataclass(slots=True)
class Subscribers:
    """Subscriptions by the scope that sees them, each list in order of endpoint keys.

    `orderings` has the endpoints whose deliveries are ordered, and how.
    """

    by_tenant: dict[str, list[tuple[int, Subscription]]]
    by_partner: dict[str, list[tuple[int, Subscription]]]
    platform: list[tuple[int, Subscription]]
    orderings: dict[int, str] = field(default_factory=dict)

    def of(self, event: EventFacts) -> list[int]:
        """Return the keys of the endpoints that get the event, in order."""
        mine = [
            *self.by_tenant.get(event.tenant_id or "", ()),
            *self.by_partner.get(event.partner_id or "", ()),
            *self.platform,
        ]
        return sorted(endpoint_id for endpoint_id, subscription in mine if wants(subscription, event))


def read_subscribers(
    tx: Tx, tenants: Collection[str], partners: Collection[str], after: int = 0
) -> Subscribers:
    """Read the enabled endpoints of these tenants and partners, and the platform's, above the key `after`."""
    of_tenants, tenant_values = tx.dialect.among("e.tenant_id", sorted(tenants))
    of_partners, partner_values = tx.dialect.among("e.partner_id", sorted(partners))
    tx.execute(
        _ENDPOINTS.format(tenants=of_tenants, partners=of_partners), [*tenant_values, *partner_values, after]
    )
    return _grouped(tx.rows())


def _grouped(rows: Iterable[tuple[Any, ...]]) -> Subscribers:
    found = Subscribers({}, {}, [])
    for row in rows:
        entry = (row[0], _of(tuple(row[:6])))
        if row[6] != NONE:
            found.orderings[row[0]] = row[6]
        if row[1] is not None:
            found.by_tenant.setdefault(row[1], []).append(entry)
        elif row[2] is not None:
            found.by_partner.setdefault(row[2], []).append(entry)
        else:
            found.platform.append(entry)
    return found


def _of(row: tuple[Any, ...]) -> Subscription:
    size = len(row[4]) + len(row[5] or "")
    return _subscription(row) if size <= CACHED_SIZE else _compiled(row)


@lru_cache(maxsize=8192)
def _subscription(row: tuple[Any, ...]) -> Subscription:
    return _compiled(row)


def _compiled(row: tuple[Any, ...]) -> Subscription:
    endpoint_id, tenant_id, partner_id, environment, events, identity_ids = row
    identities = None if identity_ids is None else loads(identity_ids)
    return Subscription(
        scope="tenant" if tenant_id is not None else "partner" if partner_id is not None else "platform",
        tenant_id=tenant_id,
        partner_id=partner_id,
        environment=environment,
        events=tuple(loads(events)),
        identity_ids=None if identities is None else tuple(identities),
        endpoint_id=str(endpoint_id),
    )
