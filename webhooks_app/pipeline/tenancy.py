"""Who owns a tenant, and who is suspended: the tables Tenant and Partner, or the host's own class (TENANCY).

The host's class has three methods: `partner_of(tenant_id) -> str | None`,
`is_suspended(tenant_id, partner_id) -> bool` and `retention_days(tenant_id) -> int | None`.
"""

from collections.abc import Collection
from functools import lru_cache
from typing import Any

from django.utils.module_loading import import_string

from ..conf import current
from .transactions import Tx


def host() -> Any:
    """Return an instance of the host's class, or None."""
    return _instance(current().TENANCY)


@lru_cache(maxsize=4)
def _instance(path: str | None) -> Any:
    return None if path is None else import_string(path)()


def is_suspended(tenant_id: str | None, partner_id: str | None) -> bool:
    """Whether the host's class holds this scope's endpoints; the lease itself reads the tables."""
    own = host()
    return (
        own is not None and (tenant_id or partner_id) is not None and own.is_suspended(tenant_id, partner_id)
    )


def partners_of(tx: Tx, tenant_ids: Collection[str]) -> dict[str, str]:
    """Return the partner of each tenant that has one."""
    if not tenant_ids:
        return {}
    own = host()
    if own is not None:
        found = {tenant_id: own.partner_of(tenant_id) for tenant_id in tenant_ids}
        return {tenant_id: partner for tenant_id, partner in found.items() if partner is not None}
    condition, values = tx.dialect.among("id", sorted(tenant_ids))
    tx.execute(
        f"SELECT id, partner_id FROM webhooks_app_tenant WHERE {condition} AND partner_id IS NOT NULL", values
    )
    return dict(tx.rows())
