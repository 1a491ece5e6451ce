"""PipelineLock: rows that make fan-out and tick run one at a time, and the counter of positions."""

from django.db import models


class PipelineLock(models.Model):
    """A named row to lock; a row lock, unlike a session lock, survives transaction poolers."""

    name = models.CharField(primary_key=True, max_length=80)
    value = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return self.name
