"""Token buckets that several endpoints share: one of a tenant, or of a target host."""

from django.db import models


class RateBucket(models.Model):
    """`key` is `tenant:…` or `host:…`; `tokens` were left at `updated_at`, and grow since."""

    key = models.CharField(primary_key=True, max_length=300)
    tokens = models.FloatField()
    updated_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.key
