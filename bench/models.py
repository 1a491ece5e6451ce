"""The business row that `emit` is compared with."""

from django.db import models


class Order(models.Model):
    """A plain row of ordinary width."""

    name = models.CharField(max_length=100)
    number = models.IntegerField(default=0)
    status = models.CharField(max_length=40, default="new")
    currency = models.CharField(max_length=40, default="EUR")
    note = models.TextField()
    placed_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.name
