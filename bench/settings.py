"""Django settings of the worker under measurement and of the process that measures it.

`bench.servers` sets the variables: BENCH_DATABASE_URL, BENCH_BROKER_URL, BENCH_PORTS (the receiver's, comma
separated) and BENCH_CA (the file that certifies its https port).
"""

import base64
import os

import environ

DEBUG = False
SECRET_KEY = "a-key-for-measurements-only"
USE_TZ = True
TIME_ZONE = "UTC"
ALLOWED_HOSTS = ["localhost"]
ROOT_URLCONF = "webhooks_app.urls"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "webhooks_app", "bench"]
DATABASES = {
    "default": {
        **environ.Env.db_url_config(os.environ["BENCH_DATABASE_URL"]),
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
    }
}

CELERY_BROKER_URL = os.environ["BENCH_BROKER_URL"]
CELERY_TASK_IGNORE_RESULT = True
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1

WEBHOOKS = {
    "MASTER_KEYS": [base64.b64encode(b"master key for measuring: 32 B..").decode()],
    "TESTING": True,
    "STATIC_HOSTS": {"*.bench": ["127.0.0.1"]},
    "ALLOW_NETWORKS": ["127.0.0.0/8"],
    "REQUIRE_HTTPS": False,
    "EXTRA_PORTS": [int(port) for port in os.environ["BENCH_PORTS"].split(",")],
    "CA_BUNDLE": os.environ["BENCH_CA"],
    "MAX_ENDPOINTS": 1_000_000,
    # Counted, as everywhere, but never full.
    "API_RATE_LIMITS": {"key": 1_000_000, "tenant": 1_000_000, "partner": 1_000_000, "operation": 1_000_000},
    # As on a machine that only runs workers; BENCH_PIN=0 measures without.
    "PIN_TO_CORE": os.environ.get("BENCH_PIN", "1") == "1",
}
