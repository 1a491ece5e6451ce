"""Job: recovery in the background, resumable after a crash, with its progress."""

from django.db import models

from .endpoint import Endpoint


class Job(models.Model):
    """What was asked for, by whom, and how far it is; `cursor` is the last key done."""

    class Kind(models.TextChoices):
        RECOVER = "recover"
        BULK_RETRY = "bulk_retry"
        ERASE = "erase"
        HASTEN = "hasten"

    class State(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        SUCCEEDED = "succeeded"
        FAILED = "failed"
        CANCELLED = "cancelled"

    id = models.BigAutoField(primary_key=True)
    public_id = models.CharField(max_length=30, unique=True, editable=False)
    kind = models.CharField(max_length=16, choices=Kind)
    state = models.CharField(max_length=16, choices=State, default=State.QUEUED)
    endpoint = models.ForeignKey(
        Endpoint, null=True, on_delete=models.SET_NULL, db_constraint=False, related_name="jobs"
    )
    tenant_id = models.CharField(max_length=128, null=True)
    partner_id = models.CharField(max_length=128, null=True)
    environment = models.CharField(max_length=8, null=True)
    params = models.JSONField(default=dict)
    actor_kind = models.CharField(max_length=32)
    actor_id = models.CharField(max_length=150)
    request_id = models.CharField(max_length=64, default="")
    total = models.PositiveIntegerField(null=True, help_text="Counted before the first is queued.")
    done = models.PositiveIntegerField(default=0)
    skipped = models.PositiveIntegerField(default=0)
    cursor = models.BigIntegerField(default=0)
    error = models.CharField(max_length=200, default="")
    claimed_until = models.DateTimeField(null=True, help_text="A worker is at it until then.")
    cancel_requested_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["id"], name="webhooks_job_open", condition=models.Q(state__in=["queued", "running"])
            ),
        ]

    def __str__(self) -> str:
        return f"{self.public_id} ({self.kind})"
