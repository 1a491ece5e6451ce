"""Attempt: the evidence of one request."""

from django.db import models

from ..core.ids import format_id
from .delivery import Delivery
from .endpoint import Endpoint


class Attempt(models.Model):
    """What was sent and what came back. Replies come from strangers: escape them wherever they are shown."""

    class Trigger(models.TextChoices):
        SCHEDULE = "schedule"
        MANUAL = "manual"
        PROBE = "probe"
        TEST = "test"

    class Status(models.TextChoices):
        SUCCEEDED = "succeeded"
        FAILED = "failed"
        DEAD = "dead"

    id = models.UUIDField(primary_key=True)
    delivery = models.ForeignKey(
        Delivery,
        null=True,
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="attempt_rows",
    )
    endpoint = models.ForeignKey(
        Endpoint, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="attempts"
    )
    event_id = models.CharField(max_length=64)
    event_type = models.CharField(max_length=128)
    number = models.PositiveIntegerField()
    trigger = models.CharField(max_length=8, choices=Trigger)
    status = models.CharField(max_length=16, choices=Status)
    error = models.CharField(max_length=32, default="")
    detail = models.CharField(max_length=64, default="")
    http_status = models.PositiveSmallIntegerField(null=True)
    duration_ms = models.PositiveIntegerField()
    url = models.CharField(max_length=2048, help_text="Without its query.")
    target_ip = models.CharField(max_length=45, null=True)
    body_sha256 = models.BinaryField(null=True)
    signature = models.CharField(max_length=500, default="")
    reply_headers = models.JSONField(default=list)
    reply_body = models.BinaryField(default=b"")
    next_attempt_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["delivery", "number"], name="webhooks_attempt_number"),
        ]
        indexes = [
            models.Index(fields=["endpoint", "id"], name="webhooks_attempt_endpoint"),
        ]

    def __str__(self) -> str:
        return self.public_id

    @property
    def public_id(self) -> str:
        """The `att_` id, as sent in the header `webhook-delivery-id`."""
        return format_id("att", self.id.int)
