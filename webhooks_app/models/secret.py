"""EndpointSecret: versions of an endpoint's signing key, sealed at rest."""

from django.db import models

from .endpoint import Endpoint


class EndpointSecret(models.Model):
    """One key of an endpoint. `expires_at` is set while an older key still signs during an overlap."""

    id = models.BigAutoField(primary_key=True)
    endpoint = models.ForeignKey(Endpoint, on_delete=models.CASCADE, related_name="secrets")
    version = models.PositiveIntegerField()
    scheme = models.CharField(max_length=8, default="v1")
    sealed = models.TextField()
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["endpoint", "version"], name="webhooks_secret_version"),
        ]

    def __str__(self) -> str:
        return f"secret {self.version} of endpoint {self.endpoint_id}"
