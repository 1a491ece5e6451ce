"""Endpoint: where a consumer wants events. What the delivery path writes is in EndpointState."""

from django.db import models
from django.db.models import Q


class Endpoint(models.Model):
    """A receiver of one tenant, one partner, or (neither set) the platform."""

    class Environment(models.TextChoices):
        LIVE = "live"
        TEST = "test"

    class Method(models.TextChoices):
        POST = "POST"
        PUT = "PUT"
        PATCH = "PATCH"

    class Ordering(models.TextChoices):
        NONE = "none"
        FIFO = "fifo"
        SUBJECT = "subject"

    id = models.BigAutoField(primary_key=True)
    public_id = models.CharField(max_length=30, unique=True, editable=False)
    tenant_id = models.CharField(max_length=128, null=True, blank=True)
    partner_id = models.CharField(max_length=128, null=True, blank=True)
    kind = models.CharField(max_length=16, default="https", editable=False)
    url = models.CharField(max_length=2048)
    method = models.CharField(max_length=5, choices=Method, default=Method.POST)
    description = models.CharField(max_length=500, blank=True, default="")
    events = models.JSONField(default=list)
    identity_ids = models.JSONField(null=True, blank=True)
    policy = models.CharField(max_length=64, default="standard")
    policy_overrides = models.JSONField(default=dict, blank=True)
    headers = models.JSONField(default=list, blank=True, help_text="Values marked secret are sealed.")
    max_in_flight = models.PositiveSmallIntegerField(default=100)
    ordering = models.CharField(
        max_length=8, choices=Ordering, default=Ordering.NONE, db_default=Ordering.NONE.value
    )
    rate_limit = models.JSONField(
        null=True, blank=True, help_text='{"per_second": n, "burst": n}; null = none.'
    )
    environment = models.CharField(max_length=8, choices=Environment, default=Environment.LIVE)
    revision = models.PositiveIntegerField(
        default=1, editable=False, help_text="Rises with every change; keys caches."
    )
    deleted_at = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(editable=False)
    updated_at = models.DateTimeField(editable=False)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(tenant_id__isnull=True) | Q(partner_id__isnull=True),
                name="webhooks_endpoint_one_scope",
            ),
            models.CheckConstraint(
                condition=Q(max_in_flight__gte=1), name="webhooks_endpoint_in_flight_positive"
            ),
        ]
        indexes = [
            models.Index(
                fields=["tenant_id", "id"],
                name="webhooks_endpoint_tenant",
                condition=Q(deleted_at__isnull=True, tenant_id__isnull=False),
            ),
            models.Index(
                fields=["partner_id", "id"],
                name="webhooks_endpoint_partner",
                condition=Q(deleted_at__isnull=True, partner_id__isnull=False),
            ),
            models.Index(
                fields=["id"],
                name="webhooks_endpoint_platform",
                condition=Q(deleted_at__isnull=True, tenant_id__isnull=True, partner_id__isnull=True),
            ),
        ]

    def __str__(self) -> str:
        return self.public_id

    @property
    def scope(self) -> str:
        """`tenant`, `partner` or `platform`."""
        if self.tenant_id is not None:
            return "tenant"
        return "partner" if self.partner_id is not None else "platform"
