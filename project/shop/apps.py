"""The app config of the shop."""

from django.apps import AppConfig


class ShopConfig(AppConfig):
    """The shop."""

    name = "project.shop"
    verbose_name = "Shop"
    default_auto_field = "django.db.models.BigAutoField"
