"""Django settings of the processes that the end-to-end tests start; E2E holds what a test chose, as JSON.

The delivery database is the alias `e2e`, in these processes and in pytest's; `default` is never used.
"""

from typing import Any

import environ

from tests.e2e.choice import choice
from tests.settings import *  # noqa: F403
from tests.settings import SQLITE_OPTIONS
from tests.settings import WEBHOOKS as BASE
from webhooks_app import beat_schedule

CHOICE = choice()
ALIAS = "e2e"


def database(url: str) -> dict[str, Any]:
    """Return the Django settings of the database at `url`."""
    config: dict[str, Any] = environ.Env.db_url_config(url)
    return {**config, "OPTIONS": SQLITE_OPTIONS} if url.startswith("sqlite") else config


def webhooks(port: int, **changes: Any) -> dict[str, Any]:
    """Return the WEBHOOKS setting for a receiver on this loopback port, reached as NAME.e2e."""
    return {
        **BASE,
        "DATABASE": ALIAS,
        "OUTBOX_DATABASES": [ALIAS],
        "MAX_ENDPOINTS": 10_000,
        "REQUIRE_HTTPS": False,
        "EXTRA_PORTS": [port],
        "ALLOW_NETWORKS": ["127.0.0.0/8"],
        "STATIC_HOSTS": {"*.e2e": ["127.0.0.1"]},
        "TESTING": True,
        **changes,
    }


DATABASES = {"default": {"ENGINE": "django.db.backends.dummy"}, ALIAS: database(CHOICE.database)}
WEBHOOKS = webhooks(CHOICE.port, **CHOICE.webhooks)
DEBUG = CHOICE.debug
# Only what a worker needs: dozens of them are started.
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "webhooks_app"]
ROOT_URLCONF = "tests.e2e.urls"

CELERY_BROKER_URL = CHOICE.broker
CELERY_BEAT_SCHEDULE = beat_schedule(queue=WEBHOOKS.get("QUEUE_NAME", "webhooks"))
CELERY_BROKER_TRANSPORT_OPTIONS = CHOICE.transport_options
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_WORKER_HIJACK_ROOT_LOGGER = True
for _name, _value in CHOICE.celery.items():
    globals()[f"CELERY_{_name.upper()}"] = _value

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "%(asctime)s %(process)d %(levelname)s %(name)s %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "loggers": {"webhooks_app": {"handlers": ["console"], "level": "INFO", "propagate": False}},
}
