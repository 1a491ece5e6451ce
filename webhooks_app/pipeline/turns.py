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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

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

_NEXT = f"""(SELECT tenant_id FROM webhooks_app_outboxentry WHERE {WAITING} AND tenant_id {{after}}
ORDER BY tenant_id LIMIT 1)"""
_COUNT = f"""(SELECT count(*) FROM (SELECT 1 FROM webhooks_app_outboxentry WHERE {WAITING} {{which}}
{_ORDER} {{most}}) AS counted)"""
_MOST = "(SELECT number FROM most)"
# A loose index scan: from one tenant to the next, whatever lies between them.
_FOUND = f"""WITH RECURSIVE found (tenant_id) AS (SELECT {_NEXT.format(after="{after} %s")}
UNION ALL SELECT {_NEXT.format(after="> found.tenant_id")} FROM found WHERE found.tenant_id IS NOT NULL),
turn (tenant_id) AS (SELECT tenant_id FROM found WHERE tenant_id IS NOT NULL LIMIT %s),
most (number) AS (SELECT min(number) FROM
 (SELECT %s AS number UNION ALL SELECT %s / (1 + count(*)) FROM turn) AS bound)
SELECT tenant_id, {_COUNT.format(which=_OF_TENANT.format(tenant="turn.tenant_id"), most=_MOST)} FROM turn
UNION ALL SELECT NULL, {_COUNT.format(which=_OF_NONE, most=_MOST)}"""
_SHARES = f"""SELECT entry.* FROM {{values}} CROSS JOIN LATERAL
({_SELECT} {_OF_TENANT.format(tenant="v.tenant")} {_ORDER} v.share) AS entry"""

# How many of its entries each tenant wants to have taken, or may.
Numbers = Mapping[str | None, int]


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
    whole = _everything(tx, limit, partners=partners) if after is None else None
    return whole or _shares(tx, limit, after or "", partners=partners)


def _everything(tx: Tx, limit: int, *, partners: bool) -> Turn | None:
    """Return all that waits, None if it does not fit."""
    select = _SELECT.format(columns=columns(tx.dialect, partners=partners))
    tx.execute(f"{select} {_ORDER} %s", [limit + 1])
    rows = tx.rows()
    if len(rows) > limit:
        return None
    entries = [Entry(*row) for row in rows]
    return _turn(entries, dict.fromkeys(entry.tenant_id for entry in entries))


def _shares(tx: Tx, limit: int, after: str, *, partners: bool) -> Turn:
    bound = max(1, min(TENANTS, limit - 1))
    wanted = _found(tx, limit, after, bound)
    if after and not wanted:
        after, wanted = "", _found(tx, limit, "", bound)
    shares = divide(wanted, limit)
    entries = _read(tx, shares, partners=partners)
    named = [tenant for tenant in shares if tenant is not None]
    if len(named) == bound:
        return _turn(entries, shares, more=True, after=named[-1])
    more = bool(after) or _is_left(entries, wanted, shares, limit)
    return _turn(entries, shares, more=more, after="" if more else None)


def _found(tx: Tx, limit: int, after: str, bound: int) -> Numbers:
    """Return at most `bound` tenants, then None if entries without tenant wait, and what each could fill."""
    tx.execute(_FOUND.format(after=">" if after else ">="), [after, bound, COUNTED, 2 * limit])
    found = {tenant: number for tenant, number in tx.rows() if number}
    counted = min(COUNTED, 2 * limit // (1 + len(found.keys() - {None})))
    return {tenant: number if number < counted else limit for tenant, number in found.items()}


def divide(wanted: Numbers, limit: int) -> Numbers:
    """Return how many of `limit` each may have: equal shares; what one does not want passes on."""
    shares = dict.fromkeys(wanted, 0)
    for done, tenant in enumerate(sorted(wanted, key=wanted.__getitem__)):
        shares[tenant] = min(wanted[tenant], limit // (len(wanted) - done))
        limit -= shares[tenant]
    return shares


def _is_left(entries: Sequence[Entry], wanted: Numbers, shares: Numbers, limit: int) -> bool:
    """Whether a tenant may have more than was read."""
    taken = Counter(entry.tenant_id for entry in entries)
    return any(
        taken[tenant] == share and (share < wanted[tenant] or wanted[tenant] == limit)
        for tenant, share in shares.items()
    )


def _turn(
    entries: list[Entry], tenants: Iterable[str | None], *, more: bool = False, after: str | None = None
) -> Turn:
    return Turn(sorted(entries, key=attrgetter("id")), list(tenants), more, after)


def _read(tx: Tx, shares: Numbers, *, partners: bool) -> list[Entry]:
    """Read a tenant's share in one statement: what commits between two could part an owner's entries."""
    listed = columns(tx.dialect, partners=partners)
    alone = [None] if tx.dialect.lateral else list(shares)
    entries = [entry for each in alone for entry in _one(tx, each, shares.get(each, 0), listed)]
    named = [(each, share) for each, share in shares.items() if each not in alone]
    if named:
        values, params = tx.dialect.values({"tenant": "text", "share": "bigint"}, named)
        tx.execute(_SHARES.format(columns=listed, values=values), params)
        entries += [Entry(*row) for row in tx.rows()]
    return entries


def _one(tx: Tx, tenant: str | None, share: int, listed: str) -> list[Entry]:
    if not share:
        return []
    which, values = (_OF_NONE, []) if tenant is None else (_OF_TENANT.format(tenant="%s"), [tenant, tenant])
    tx.execute(f"{_SELECT.format(columns=listed)} {which} {_ORDER} %s", [*values, share])
    return [Entry(*row) for row in tx.rows()]
