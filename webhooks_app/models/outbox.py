"""The outbox: what the caller's transaction writes, and nothing else."""

from django.db import models
from django.db.models import Q, Value
from django.db.models.functions import Coalesce, Now


class OwnerSequence(models.Model):
    """Last sequence number given to an owner's events; bumped by one upsert in the caller's transaction.

    An owner belongs to its tenant ('' for none): tenants that use the same names cause each other no gaps.
    """

    pk = models.CompositePrimaryKey("tenant_id", "kind", "owner_id")
    tenant_id = models.CharField(max_length=128)
    kind = models.CharField(max_length=64)
    owner_id = models.CharField(max_length=128)
    last = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.kind}/{self.owner_id}: {self.last}"


class OutboxEntry(models.Model):
    """A committed fact waiting to be fanned out; `body` is the exact envelope every attempt sends."""

    id = models.BigAutoField(primary_key=True)
    event_id = models.CharField(max_length=64, unique=True)
    type = models.CharField(max_length=128)
    owner_kind = models.CharField(max_length=64, null=True)
    owner_id = models.CharField(max_length=128, null=True)
    sequence = models.BigIntegerField(null=True)
    tenant_id = models.CharField(max_length=128, null=True)
    identity_id = models.CharField(max_length=128, null=True)
    subject = models.CharField(max_length=256, null=True)
    environment = models.CharField(max_length=8)
    body = models.BinaryField()
    occurred_at = models.DateTimeField()
    recorded_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(null=True)
    dispatched_at = models.DateTimeField(null=True)
    failures = models.SmallIntegerField(default=0)
    set_aside_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name_plural = "outbox entries"
        indexes = [
            models.Index(
                fields=["tenant_id", "id"],
                name="webhooks_outbox_by_tenant",
                condition=Q(dispatched_at__isnull=True, set_aside_at__isnull=True),
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                Coalesce("tenant_id", Value("")),
                "owner_kind",
                "owner_id",
                "sequence",
                condition=Q(owner_id__isnull=False),
                name="webhooks_outbox_owner_sequence",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.event_id} ({self.type})"
