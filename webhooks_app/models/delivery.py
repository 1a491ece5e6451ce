"""Delivery: the job, one event for one endpoint; the row is the truth, broker messages are hints."""

from django.db import models
from django.db.models import Q

from ..core.ids import delivery_id
from ..core.states import DEAD, State
from .endpoint import Endpoint
from .event import Event


class Delivery(models.Model):
    """One event at one endpoint: `due_at` is the schedule, a lease is a claim that lapses."""

    class Priority(models.IntegerChoices):
        LIVE = 0
        RETRY = 1
        BULK = 2
        # Rows of a lane: found by another question, which the three shares do not concern.
        ORDERED = 3

    id = models.BigAutoField(primary_key=True)
    # No constraint, no index: foreign keys cost up to 45 % of a fan-out, and the indexes below serve both.
    endpoint = models.ForeignKey(
        Endpoint, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="deliveries"
    )
    event = models.ForeignKey(
        Event, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="deliveries"
    )
    state = models.CharField(
        max_length=16, default=State.PENDING, choices=[(s.value, s.value) for s in State]
    )
    priority = models.SmallIntegerField(default=Priority.LIVE, choices=Priority)
    due_at = models.DateTimeField(null=True)
    lease_token = models.UUIDField(null=True)
    lease_until = models.DateTimeField(null=True)
    attempts = models.PositiveIntegerField(default=0)
    step = models.PositiveSmallIntegerField(default=0)
    deferrals = models.PositiveSmallIntegerField(default=0)
    lapses = models.PositiveSmallIntegerField(default=0)
    position = models.BigIntegerField()
    lane = models.CharField(max_length=200, null=True)
    occurred_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    last_error = models.CharField(max_length=32, default="")
    first_delivered_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(
        null=True, help_text="Start of its schedule: the event's recording, or a replay. Null = created_at."
    )
    finished_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name_plural = "deliveries"
        constraints = [
            models.UniqueConstraint(fields=["endpoint", "event"], name="webhooks_delivery_once"),
        ]
        indexes = [
            models.Index(
                fields=["endpoint", "priority", "due_at", "id"],
                name="webhooks_delivery_due",
                condition=Q(state="pending"),
            ),
            models.Index(
                fields=["endpoint", "lane", "position"],
                name="webhooks_delivery_lane",
                condition=Q(state="pending", lane__isnull=False),
            ),
            models.Index(
                fields=["endpoint"], name="webhooks_delivery_leased", condition=Q(lease_token__isnull=False)
            ),
            models.Index(fields=["event"], name="webhooks_delivery_event"),
            # Few rows, so it costs little: dead ones are looked for among millions that were delivered.
            models.Index(
                fields=["endpoint", "event"],
                name="webhooks_delivery_dead",
                condition=Q(state__in=sorted(state.value for state in DEAD)),
            ),
        ]

    def __str__(self) -> str:
        return self.public_id

    @property
    def public_id(self) -> str:
        """The `dlv_` id, derived from the key and the creation time."""
        return delivery_id(self.id, self.created_at)
