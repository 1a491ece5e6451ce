"""The app config of the demo; it only brings the command `webhooks_demo`."""

from django.apps import AppConfig


class DemoConfig(AppConfig):
    """The demo."""

    name = "project.demo"
    label = "webhooks_demo"
