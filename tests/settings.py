"""Django settings of the test suite.

TEST_DATABASE_URL   PostgreSQL's URL; without it each run has SQLite files of its own
TEST_BROKER_URL     Celery's broker; default: in memory
"""

import atexit
import base64
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import environ

from webhooks_app import beat_schedule

# Test processes of one run share this name; two runs in one checkout do not. The first one cleans up.
RUN = os.environ.setdefault("WEBHOOKS_TEST_RUN", str(os.getpid()))
RUN_FOLDER = Path(tempfile.gettempdir()) / f"webhooks-tests-{RUN}"
if str(os.getpid()) == RUN:
    atexit.register(shutil.rmtree, RUN_FOLDER, ignore_errors=True)

SQLITE_OPTIONS = {
    "transaction_mode": "IMMEDIATE",
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
    "timeout": 20,
}


def database(alias: str) -> dict[str, Any]:
    """Return the settings of one test database; all aliases are of the same kind."""
    url = os.environ.get("TEST_DATABASE_URL", "")
    if url.startswith("postgres"):
        return {**environ.Env.db_url_config(url), "TEST": {"NAME": f"test_{alias}"}}
    RUN_FOLDER.mkdir(parents=True, exist_ok=True)
    name = str(RUN_FOLDER / f"{alias}.sqlite3")
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": name,
        "OPTIONS": SQLITE_OPTIONS,
        "TEST": {"NAME": f"{name}-test"},
    }


DATABASES = {"default": database("default"), "second": database("second")}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"
SECRET_KEY = "a-key-for-tests-only"
ALLOWED_HOSTS = ["testserver", "localhost", "127.0.0.1"]
ROOT_URLCONF = "tests.urls"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
STATIC_URL = "/static/"

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "webhooks_app",
    "tests.testapp",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}

CELERY_BROKER_URL = os.environ.get("TEST_BROKER_URL", "memory://")
CELERY_BROKER_TRANSPORT_OPTIONS = {"polling_interval": 0.02} if CELERY_BROKER_URL.startswith("memory") else {}
CELERY_TASK_IGNORE_RESULT = True
CELERY_BEAT_SCHEDULE = beat_schedule()

WEBHOOKS = {
    "MASTER_KEYS": [base64.b64encode(b"master key for the tests: 32 B..").decode()],
    "TESTING": True,
    "API_RATE_LIMITS": None,
}
