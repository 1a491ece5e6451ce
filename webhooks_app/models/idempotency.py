"""IdempotencyRecord: the answer that a repeated request gets again."""

from django.db import models


class IdempotencyRecord(models.Model):
    """One Idempotency-Key of one caller; who takes over a stuck request compares and sets `started_at`."""

    class State(models.TextChoices):
        IN_PROGRESS = "in_progress"
        COMPLETED = "completed"

    id = models.BigAutoField(primary_key=True)
    caller = models.CharField(max_length=64, help_text="SHA-256 over the caller's kind, id and scope.")
    key = models.CharField(max_length=255)
    method = models.CharField(max_length=8)
    path = models.CharField(max_length=512)
    fingerprint = models.CharField(max_length=64, help_text="SHA-256 over method, path and body.")
    state = models.CharField(max_length=12, choices=State, default=State.IN_PROGRESS)
    status = models.PositiveSmallIntegerField(null=True)
    headers = models.JSONField(default=dict)
    body = models.BinaryField(null=True, help_text="Without one-time secrets.")
    started_at = models.DateTimeField()
    expires_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["caller", "key"], name="webhooks_idempotency_once"),
        ]
        indexes = [
            models.Index(fields=["expires_at"], name="webhooks_idempotency_expiry"),
        ]

    def __str__(self) -> str:
        return f"{self.method} {self.path}"
