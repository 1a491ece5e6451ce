"""What the shop does. Each change and the event about it share one transaction: both happen or neither."""

from decimal import Decimal

from django.db import transaction

from project.shop.models import Customer, Order
from webhooks_app import emit


class OutOfStock(Exception):
    """The order cannot be fulfilled."""


@transaction.atomic
def place_order(customer: Customer, item: str, total: Decimal, *, in_stock: bool = True) -> Order:
    """Record an order and tell the customer's systems.

    Raises:
        OutOfStock: nothing is recorded and nobody is told, although the event had been emitted already.
    """
    order = Order.objects.create(customer=customer, item=item, total=total)
    emit("order.placed", describe(order), tenant=customer.pk, owner=("order", str(order.pk)))
    if not in_stock:
        raise OutOfStock(item)
    return order


@transaction.atomic
def pay_order(order: Order) -> None:
    """Mark an order as paid and tell the customer's systems."""
    order.status = Order.Status.PAID
    order.save(update_fields=["status"])
    emit("order.paid", describe(order), tenant=order.customer_id, owner=("order", str(order.pk)))


def describe(order: Order) -> dict[str, object]:
    """Return the data of an event about an order."""
    return {"order": order.pk, "item": order.item, "total": order.total, "status": order.status}
