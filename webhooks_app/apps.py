"""Django's handle on the app."""

from django.apps import AppConfig


class WebhooksAppConfig(AppConfig):
    """Registers system checks and the Celery tasks; nothing else happens at start."""

    name = "webhooks_app"
    verbose_name = "Webhooks"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Import what registers itself."""
        from . import checks, tasks  # noqa: F401
