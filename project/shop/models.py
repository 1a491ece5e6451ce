"""The shop's own tables; nothing in them knows about webhooks."""

from django.db import models


class Customer(models.Model):
    """A company that buys here; in the words of the webhook sender, a tenant."""

    id = models.SlugField(primary_key=True, max_length=40)
    name = models.CharField(max_length=100)

    def __str__(self) -> str:
        return self.name


class Order(models.Model):
    """One order of a customer."""

    class Status(models.TextChoices):
        PLACED = "placed"
        PAID = "paid"

    customer = models.ForeignKey(Customer, on_delete=models.CASCADE, related_name="orders")
    item = models.CharField(max_length=100)
    total = models.DecimalField(max_digits=10, decimal_places=2)
    status = models.CharField(max_length=8, choices=Status, default=Status.PLACED)
    placed_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"order {self.pk}"
