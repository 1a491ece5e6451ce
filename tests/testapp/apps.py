"""The app config of the test shop."""

from django.apps import AppConfig


class ShopConfig(AppConfig):
    """Named explicitly: `tests.testapp` is not importable by its label."""

    name = "tests.testapp"
    label = "testapp"
    default_auto_field = "django.db.models.BigAutoField"
