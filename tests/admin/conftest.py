"""Staff who are logged in, names that resolve without DNS, and pages as text."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client

from webhooks_app.destinations import https

NETWORK = {
    "ALLOW_NETWORKS": ["127.0.0.0/8"],
    "STATIC_HOSTS": {"*.customer.com": ["127.0.0.1"]},
    "QUEUE": "poll",
}


@pytest.fixture(autouse=True)
def network(settings: Any) -> Iterator[None]:
    """Let endpoints be registered without DNS."""
    settings.WEBHOOKS = {**settings.WEBHOOKS, **NETWORK}
    https.reset()
    yield
    https.reset()


@pytest.fixture
def staff(db: None) -> Callable[..., Client]:
    """Return a function that logs a staff member with some permissions in."""

    def log_in(*permissions: str) -> Client:
        user = get_user_model().objects.create_user("clerk", is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
        client = Client()
        client.force_login(user)
        return client

    return log_in


@pytest.fixture
def boss(admin_client: Client) -> Client:
    """A superuser."""
    return admin_client
