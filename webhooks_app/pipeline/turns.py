"""Step 2a of the path: which waiting entries come next.

While all that waits fits into a batch, that is the outbox in its order. Else every tenant has its turn, so
that no tenant's backlog delays another's one event: at most 200 tenants a batch, in the order of the index
and round again, with equal shares of the batch; what a tenant does not need goes to those with more. A
tenant's entries always come in outbox order, and so do an owner's. Entries without tenant are one tenant's.

The partial index (tenant_id, id) holds what waits and nothing else. Every statement here asks for its order
by both columns, which no other index gives: however stale the statistics are, no plan walks what is
dispatched already.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter

from .dispatch import WAITING, Entry, columns
from .transactions import Tx

TENANTS = 200
# Nobody's entries are counted further: who has as many counts as having more than any share.
COUNTED = 50

_ORDER = "ORDER BY tenant_id, id LIMIT"
_SELECT = f"SELECT {{columns}} FROM webhooks_app_outboxentry WHERE {WAITING}"
_OF_NONE = "AND tenant_id IS NULL"
# Not `=`: its order would be that of the key alone, which other indexes have too.
_OF_TENANT = "AND tenant_id BETWEEN {tenant} AND {tenant}"

_NEXT = f"""(SELECT tenant_id FROM webhooks_app_outboxentry WHERE {WAITING} AND tenant_id > {{after}}
ORDER BY tenant_id LIMIT 1)"""
_COUNT = f"""(SELECT count(*) FROM (SELECT 1 FROM webhooks_app_outboxentry WHERE {WAITING} {{which}}
{_ORDER} {{most}}) AS counted)"""
_MOST = "(SELECT number FROM most)"
# A loose index scan: from one tenant to the next, whatever lies between them.
_FOUND = f"""WITH RECURSIVE found (tenant_id) AS (SELECT {_NEXT.format(after="%s")}
UNION ALL SELECT {_NEXT.format(after="found.tenant_id")} FROM found WHERE found.tenant_id IS NOT NULL),
turn (tenant_id) AS (SELECT tenant_id FROM found WHERE tenant_id IS NOT NULL LIMIT %s),
most (number) AS (SELECT min(number) FROM
 (SELECT %s AS number UNION ALL SELECT %s / (1 + count(*)) FROM turn) AS bound)
SELECT tenant_id, {_COUNT.format(which=_OF_TENANT.format(tenant="turn.tenant_id"), most=_MOST)} FROM turn
UNION ALL SELECT NULL, {_COUNT.format(which=_OF_NONE, most=_MOST)}"""
_SHARES = f"""SELECT entry.* FROM {{values}} CROSS JOIN LATERAL
({_SELECT} {_OF_TENANT.format(tenant="v.tenant")} {_ORDER} v.share) AS entry"""

# Tenants, and how many of its entries each wants to have taken, or may.
Numbers = Sequence[tuple[str | None, int]]


@dataclass(frozen=True, slots=True)
class Turn:
    """The entries of a batch in outbox order, and their tenants in the order of their turns.

    `more`: entries stay behind. `after`: the tenant behind which the next turn starts ("": with the first);
    None when everything fitted.
    """

    entries: list[Entry]
    tenants: list[str | None]
    more: bool = False
    after: str | None = None


def read_turn(tx: Tx, limit: int, after: str | None, *, partners: bool = False) -> Turn:
    """Read the next entries, at most `limit`. Never by a cursor over keys: a lower key may commit later.

    Args:
        after: what the last turn of this outbox said; None is always right, and tried first.
        partners: read the tenants' partners with them.
    """
    if after is None:
        entries = _all(tx, limit + 1, partners=partners)
        if len(entries) <= limit:
            tenants = dict.fromkeys(entry.tenant_id for entry in entries)
            return Turn(sorted(entries, key=attrgetter("id")), list(tenants))
        after = ""
    bound = max(1, min(TENANTS, limit - 1))
    waiting = _found(tx, limit, after, bound)
    if not waiting and after:
        return read_turn(tx, limit, "", partners=partners)
    shares = divide(waiting, limit)
    entries = _read(tx, shares, partners=partners)
    named = [tenant for tenant, _ in shares if tenant is not None]
    if len(named) == bound:
        return _turn(entries, waiting, more=True, after=named[-1])
    more = bool(after) or _is_left(entries, waiting, shares, limit)
    return _turn(entries, waiting, more=more, after="" if more else None)


def _all(tx: Tx, limit: int, *, partners: bool) -> list[Entry]:
    select = _SELECT.format(columns=columns(tx.dialect, partners=partners))
    tx.execute(f"{select} {_ORDER} %s", [limit])
    return [Entry(*row) for row in tx.rows()]


def _found(tx: Tx, limit: int, after: str, bound: int) -> Numbers:
    """Return at most `bound` tenants, then None if entries without tenant wait, and what each could fill."""
    tx.execute(_FOUND, [after, bound, COUNTED, 2 * limit])
    rows = [(tenant, number) for tenant, number in tx.rows() if number]
    named = sum(tenant is not None for tenant, _ in rows)
    counted = min(COUNTED, 2 * limit // (1 + named))
    return [(tenant, number if number < counted else limit) for tenant, number in rows]


def divide(wanted: Numbers, limit: int) -> Numbers:
    """Return how many of `limit` each may have: equal shares; what one does not want passes on."""
    shares: dict[str | None, int] = {}
    for done, (tenant, number) in enumerate(sorted(wanted, key=itemgetter(1))):
        shares[tenant] = share = min(number, limit // (len(wanted) - done))
        limit -= share
    return [(tenant, shares[tenant]) for tenant, _ in wanted]


def _is_left(entries: Sequence[Entry], wanted: Numbers, shares: Numbers, limit: int) -> bool:
    """Whether a tenant may have more than was read."""
    taken = Counter(entry.tenant_id for entry in entries)
    more = {tenant for tenant, number in wanted if number == limit or number > taken[tenant]}
    return any(taken[tenant] == share for tenant, share in shares if tenant in more)


def _turn(entries: list[Entry], tenants: Numbers, *, more: bool = False, after: str | None = None) -> Turn:
    return Turn(sorted(entries, key=attrgetter("id")), [tenant for tenant, _ in tenants], more, after)


def _read(tx: Tx, shares: Numbers, *, partners: bool) -> list[Entry]:
    """Read a tenant's share in one statement: what commits between two could part an owner's entries."""
    listed = columns(tx.dialect, partners=partners)
    if not tx.dialect.lateral:
        return [entry for tenant, share in shares for entry in _one(tx, tenant, share, listed)]
    named = [(tenant, share) for tenant, share in shares if tenant is not None]
    entries = [entry for tenant, share in shares[len(named) :] for entry in _one(tx, tenant, share, listed)]
    if named:
        values, params = tx.dialect.values({"tenant": "text", "share": "bigint"}, named)
        tx.execute(_SHARES.format(columns=listed, values=values), params)
        entries += [Entry(*row) for row in tx.rows()]
    return entries


def _one(tx: Tx, tenant: str | None, share: int, listed: str) -> list[Entry]:
    which, values = (_OF_NONE, []) if tenant is None else (_OF_TENANT.format(tenant="%s"), [tenant, tenant])
    tx.execute(f"{_SELECT.format(columns=listed)} {which} {_ORDER} %s", [*values, share])
    return [Entry(*row) for row in tx.rows()]
