"""AuditEntry: who did what to whom; written by every action in its own transaction."""

from django.db import models


class AuditEntry(models.Model):
    """One action of a person, key or the system. `details` holds ids and settings, no payloads or secrets."""

    id = models.BigAutoField(primary_key=True)
    public_id = models.CharField(max_length=30, unique=True)
    action = models.CharField(max_length=64)
    actor_kind = models.CharField(max_length=16)
    actor_id = models.CharField(max_length=128)
    target_type = models.CharField(max_length=32)
    target_id = models.CharField(max_length=128)
    tenant_id = models.CharField(max_length=128, null=True)
    partner_id = models.CharField(max_length=128, null=True)
    request_id = models.CharField(max_length=64, default="")
    details = models.JSONField(default=dict)
    created_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "audit entries"
        indexes = [
            models.Index(fields=["target_type", "target_id", "id"], name="webhooks_audit_target"),
            models.Index(fields=["tenant_id", "id"], name="webhooks_audit_tenant"),
            models.Index(
                fields=["partner_id", "id"],
                name="webhooks_audit_partner",
                condition=models.Q(partner_id__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.target_id}"
