"""A small shop: what a host project has and emits events about."""

from django.db import models


class Customer(models.Model):
    """A tenant: the party whose endpoints receive events."""

    name = models.CharField(max_length=100)

    def __str__(self) -> str:
        return self.name


class Order(models.Model):
    """A business row that changes together with an event."""

    customer = models.ForeignKey(Customer, on_delete=models.CASCADE, null=True)
    number = models.CharField(max_length=40)
    total = models.DecimalField(max_digits=12, decimal_places=2, default=0)
    paid = models.BooleanField(default=False)

    def __str__(self) -> str:
        return self.number
