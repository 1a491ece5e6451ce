"""The shop in the admin."""

from django.contrib import admin

from project.shop.models import Customer, Order


@admin.register(Customer)
class CustomerAdmin(admin.ModelAdmin):
    """Customers."""

    list_display = ["id", "name"]


@admin.register(Order)
class OrderAdmin(admin.ModelAdmin):
    """Orders; a change made here is not an event, the services are where events come from."""

    list_display = ["id", "customer", "item", "total", "status", "placed_at"]
    list_filter = ["status"]
    list_select_related = ["customer"]
    raw_id_fields = ["customer"]
