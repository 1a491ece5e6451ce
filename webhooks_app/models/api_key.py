"""ApiKey: a bearer token of the REST API, stored as a hash."""

from django.db import models
from django.db.models import Q


class ApiKey(models.Model):
    """A caller of the REST API and what it may do; the key itself is shown once and never stored."""

    class Scope(models.TextChoices):
        PLATFORM = "platform"
        PARTNER = "partner"
        TENANT = "tenant"

    id = models.BigAutoField(primary_key=True)
    public_id = models.CharField(max_length=30, unique=True)
    name = models.CharField(max_length=100, blank=True, default="")
    sha256 = models.CharField(max_length=64, unique=True)
    scope = models.CharField(max_length=8, choices=Scope)
    scope_id = models.CharField(max_length=128, null=True, blank=True)
    environment = models.CharField(max_length=8, default="live")
    permissions = models.JSONField(default=list)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = "API key"
        constraints = [
            models.CheckConstraint(
                condition=Q(scope="platform", scope_id__isnull=True)
                | (~Q(scope="platform") & Q(scope_id__isnull=False)),
                name="webhooks_api_key_scope",
            ),
        ]

    def __str__(self) -> str:
        return self.public_id
