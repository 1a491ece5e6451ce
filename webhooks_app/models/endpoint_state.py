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
    woken_until = models.DateTimeField(
        null=True, help_text="A wake is on its way; nobody sends another until then."
    )

    def __str__(self) -> str:
        return f"state of endpoint {self.endpoint_id}"
