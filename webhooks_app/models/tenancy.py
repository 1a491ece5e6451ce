"""Optional rows about the host's tenants; an unknown tenant id is a tenant without a partner."""

from django.db import models


class Partner(models.Model):
    """An organisation that owns tenants; suspending it holds its own and its tenants' deliveries."""

    id = models.CharField(primary_key=True, max_length=128)
    suspended_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return self.id


class Tenant(models.Model):
    """A customer of the host; `retention_days` overrides the setting RETENTION_DAYS."""

    id = models.CharField(primary_key=True, max_length=128)
    partner = models.ForeignKey(
        Partner, null=True, blank=True, on_delete=models.PROTECT, related_name="tenants"
    )
    retention_days = models.PositiveSmallIntegerField(null=True, blank=True)
    suspended_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return self.id
