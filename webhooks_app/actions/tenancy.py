"""Questions about tenants: who belongs to a partner, who is suspended."""

from collections.abc import Collection, Iterable, Mapping

from django.db.models import Q

from ..exceptions import Conflict
from ..models import Endpoint, Partner, Tenant
from ..pipeline import tenancy
from ..pipeline.tenancy import host, is_suspended
from ..pipeline.transactions import reading


def partner_of(alias: str, tenant_id: str) -> str | None:
    """Return the tenant's partner; a tenant nobody knows has none."""
    own_class = host()
    if own_class is not None:
        return own_class.partner_of(tenant_id)  # type: ignore[no-any-return]
    return Tenant.objects.using(alias).filter(pk=tenant_id).values_list("partner_id", flat=True).first()


def partners_of(alias: str, tenant_ids: Collection[str]) -> Mapping[str, str]:
    """Return the partner of each of these tenants that has one; the tables are asked once."""
    with reading(alias) as tx:
        return tenancy.partners_of(tx, tenant_ids)


def tenants_of(alias: str, partner_id: str) -> Iterable[str | None]:
    """Return the partner's tenants; of those that only the host's class knows, the ones with endpoints."""
    own_class = host()
    if own_class is None:
        return Tenant.objects.using(alias).filter(partner_id=partner_id).values_list("pk", flat=True)
    known = Endpoint.objects.using(alias).filter(tenant_id__isnull=False, deleted_at__isnull=True)
    ids = known.order_by("tenant_id").values_list("tenant_id", flat=True).distinct()
    return [tenant_id for tenant_id in ids if own_class.partner_of(tenant_id) == partner_id]


def check_not_suspended(alias: str, endpoint: Endpoint) -> None:
    """Raise Conflict (`tenant_suspended`) when nothing may leave for the endpoint's tenant or partner.

    The tables count, and the host's class too where there is one, as for the deliveries that the path sends.
    """
    tenants = Tenant.objects.using(alias).filter(
        Q(suspended_at__isnull=False) | Q(partner__suspended_at__isnull=False), pk=endpoint.tenant_id
    )
    partners = Partner.objects.using(alias).filter(pk=endpoint.partner_id, suspended_at__isnull=False)
    if (
        is_suspended(endpoint.tenant_id, endpoint.partner_id)
        or (endpoint.tenant_id is not None and tenants.exists())
        or (endpoint.partner_id is not None and partners.exists())
    ):
        raise Conflict("the webhook's tenant or partner is suspended", code="tenant_suspended")
