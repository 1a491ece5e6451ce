"""EndpointState: the narrow row that the delivery path locks, reads and writes."""

from django.db import models

from .endpoint import Endpoint


class EndpointState(models.Model):
    """Gates and health of one endpoint; locking this row serialises everyone who claims its deliveries."""

    class DisabledReason(models.TextChoices):
        MANUAL = "manual"
        FAILING = "failing"
        GONE = "gone"
        CONSUMER = "consumer"
        URL_CHANGED = "url_changed"

    class Breaker(models.TextChoices):
        CLOSED = "closed"
        OPEN = "open"
        HALF_OPEN = "half_open"

    endpoint = models.OneToOneField(
        Endpoint, primary_key=True, on_delete=models.CASCADE, related_name="state"
    )
    enabled = models.BooleanField(default=True)
    disabled_reason = models.CharField(max_length=16, null=True, choices=DisabledReason)
    disabled_at = models.DateTimeField(null=True)
    paused_at = models.DateTimeField(null=True)
    hold_until = models.DateTimeField(null=True, help_text="The receiver asked for silence until then.")
    window = models.PositiveSmallIntegerField(default=4, help_text="Requests it may have in flight now.")
    starved = models.BooleanField(
        default=False, help_text="Due deliveries wait for a free place in the window."
    )
    consecutive_failures = models.PositiveIntegerField(default=0)
    first_failure_at = models.DateTimeField(null=True)
    last_failure_at = models.DateTimeField(null=True)
    last_success_at = models.DateTimeField(null=True)
    generation = models.PositiveIntegerField(default=1)
    failing_from = models.DateTimeField(null=True, help_text="Where the count towards disabling starts.")
    warnings = models.PositiveSmallIntegerField(
        default=0, db_default=0, help_text="Warnings given about the present run of failures."
    )
    health_warning = models.CharField(max_length=32, default="", db_default="", help_text="An error code.")
    last_error = models.CharField(max_length=32, default="", db_default="")
    latency_ms = models.PositiveIntegerField(null=True, help_text="Smoothed time of the answers.")
    breaker = models.CharField(
        max_length=9, choices=Breaker, default=Breaker.CLOSED, db_default=Breaker.CLOSED.value
    )
    breaker_at = models.DateTimeField(null=True, help_text="Its last change.")
    breaker_error = models.CharField(max_length=32, default="", db_default="", help_text="Why it opened.")
    breaker_successes = models.PositiveSmallIntegerField(
        default=0, db_default=0, help_text="In a row, in the breaker's present state."
    )
    probe_at = models.DateTimeField(null=True, help_text="No probe before.")
    probe_token = models.UUIDField(null=True, help_text="The lease whose outcome moves the breaker.")
    probe_until = models.DateTimeField(null=True, help_text="A probe that has not reported by then is lost.")
    tokens = models.FloatField(null=True, help_text="Of the rate limit; null = a full burst.")
    tokens_at = models.DateTimeField(null=True)
    owner = models.CharField(
        max_length=64, default="", db_default="", help_text="The node that claimed last, if it is ordered."
    )
    owner_until = models.DateTimeField(null=True, help_text="End of that claim.")
    delivered = models.BigIntegerField(default=0, db_default=0)
    retried = models.BigIntegerField(default=0, db_default=0, help_text="Failed attempts that are repeated.")
    failed = models.BigIntegerField(default=0, db_default=0, help_text="Failed attempts that ended theirs.")
    dead_lettered = models.BigIntegerField(
        default=0, db_default=0, help_text="Deliveries that ended otherwise than delivered."
    )
    woken_until = models.DateTimeField(
        null=True, help_text="A wake is on its way; nobody sends another until then."
    )

    class Meta:
        indexes = [
            models.Index(
                fields=["endpoint"], name="webhooks_state_breaker", condition=~models.Q(breaker="closed")
            ),
        ]

    def __str__(self) -> str:
        return f"state of endpoint {self.endpoint_id}"
