"""Index of events: what fan-out and replay read; the body stays in the outbox that holds it."""

from django.db import models
from django.db.models import Q


class Event(models.Model):
    """One event as the delivery database knows it. `body` is set only for events the sender itself makes."""

    id = models.BigAutoField(primary_key=True)
    public_id = models.CharField(max_length=64, unique=True)
    type = models.CharField(max_length=128)
    tenant_id = models.CharField(max_length=128, null=True)
    partner_id = models.CharField(max_length=128, null=True)
    identity_id = models.CharField(max_length=128, null=True)
    owner_kind = models.CharField(max_length=64, null=True)
    owner_id = models.CharField(max_length=128, null=True)
    sequence = models.BigIntegerField(null=True)
    subject = models.CharField(max_length=256, null=True)
    environment = models.CharField(max_length=8)
    occurred_at = models.DateTimeField()
    recorded_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    outbox_alias = models.CharField(max_length=64, null=True)
    outbox_id = models.BigIntegerField(null=True)
    body = models.BinaryField(null=True)
    about_endpoint_id = models.BigIntegerField(null=True, help_text="Never delivered to this endpoint.")
    replay_of = models.BigIntegerField(
        null=True,
        help_text="Key of the event that this one repeats at one endpoint, with its own id.",
    )
    fanned_out_at = models.DateTimeField(null=True)
    fan_out_cursor = models.BigIntegerField(
        default=0, help_text="Last endpoint reached by an unfinished fan-out."
    )

    class Meta:
        indexes = [
            models.Index(fields=["tenant_id", "occurred_at"], name="webhooks_event_tenant"),
            models.Index(
                fields=["partner_id", "occurred_at"],
                name="webhooks_event_partner",
                condition=Q(partner_id__isnull=False),
            ),
            # For keys that see tests alone; the many live events are not in them and cost nothing here.
            models.Index(
                fields=["tenant_id", "occurred_at"],
                name="webhooks_event_tests",
                condition=Q(environment="test"),
            ),
            models.Index(
                fields=["partner_id", "occurred_at"],
                name="webhooks_event_partner_tests",
                condition=Q(environment="test", partner_id__isnull=False),
            ),
            models.Index(
                fields=["id"], name="webhooks_event_unfanned", condition=Q(fanned_out_at__isnull=True)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.public_id} ({self.type})"
