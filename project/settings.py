"""Settings of the demo project, read from the environment; without any it runs from the checkout alone.

Without environment: DEBUG, SQLite, Celery over files, and everything in `data/` of the checkout.
With DEBUG=false the secrets must come from the environment and every production protection is on.
`docs/reference/environment.md` lists the variables.
"""

from pathlib import Path
from typing import Any

import environ
from django.core.exceptions import ImproperlyConfigured

from project.kept import kept_secret
from webhooks_app import beat_schedule

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "data"
env = environ.Env()

# --- Django -----------------------------------------------------------------------------------------------
DEBUG = env.bool("DEBUG", default=True)
SECRET_KEY = env.str("DJANGO_SECRET_KEY", default="")
if not SECRET_KEY:
    if not DEBUG:
        raise ImproperlyConfigured("Set DJANGO_SECRET_KEY.")
    SECRET_KEY = kept_secret(DATA / "secret_key")
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"] if DEBUG else [])
ROOT_URLCONF = "project.urls"
WSGI_APPLICATION = "project.wsgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"
STATIC_URL = "static/"
STATIC_ROOT = DATA / "static"

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
    "project.shop",
    "project.demo",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
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
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]


def database() -> dict[str, Any]:
    """Return the database of DATABASE_URL; SQLite gets the options that concurrent writers need."""
    config: dict[str, Any] = env.db_url("DATABASE_URL", default=f"sqlite:///{DATA / 'db.sqlite3'}")
    if config["ENGINE"].endswith("sqlite3"):
        Path(config["NAME"]).parent.mkdir(parents=True, exist_ok=True)
        config["OPTIONS"] = {
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
            "timeout": 20,
        } | config.get("OPTIONS", {})
    else:
        config["CONN_MAX_AGE"] = 60
        config["CONN_HEALTH_CHECKS"] = True
    return config


DATABASES = {"default": database()}
CACHES = {"default": env.cache_url("CACHE_URL", default="locmemcache://")}

# --- Protections of a deployment --------------------------------------------------------------------------
HTTPS = not DEBUG
SECURE_SSL_REDIRECT = HTTPS
SESSION_COOKIE_SECURE = HTTPS
CSRF_COOKIE_SECURE = HTTPS
SESSION_COOKIE_HTTPONLY = True
SECURE_HSTS_SECONDS = 30 * 24 * 3600 if HTTPS else 0
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
# Only behind a proxy that sets this header itself; anybody else could claim to have come by HTTPS.
if env.bool("DJANGO_BEHIND_TLS_PROXY", default=False):
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
# Sub-domains and browsers' preload lists bind a whole domain, which this project does not own.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]

# --- Celery -----------------------------------------------------------------------------------------------
CELERY_BROKER_URL = env.str("CELERY_BROKER_URL", default="filesystem://")
CELERY_TASK_IGNORE_RESULT = True
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
# A wake that waits behind another in one process could be done by the next.
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_BEAT_SCHEDULE = beat_schedule()
CELERY_BEAT_SCHEDULE_FILENAME = str(DATA / "beat-schedule")
if CELERY_BROKER_URL.startswith("filesystem:"):
    # filesystem:///some/folder names the folder; Celery itself takes it from the options.
    folder = Path(CELERY_BROKER_URL.removeprefix("filesystem://") or DATA / "broker")
    (folder / "messages").mkdir(parents=True, exist_ok=True)
    CELERY_BROKER_URL = "filesystem://"
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        "data_folder_in": str(folder / "messages"),
        "data_folder_out": str(folder / "messages"),
        "control_folder": str(folder / "control"),
        "polling_interval": 0.05,
    }
    # One look at the folder takes up to this many messages; with 1, each would wait for the next look.
    CELERY_WORKER_PREFETCH_MULTIPLIER = 20


# --- Webhooks ---------------------------------------------------------------------------------------------
def master_keys() -> list[str]:
    """Return WEBHOOKS_MASTER_KEYS; a development checkout makes a key once and keeps it."""
    keys: list[str] = env.list("WEBHOOKS_MASTER_KEYS", default=[])
    return keys or ([kept_secret(DATA / "master_key")] if DEBUG else [])


def static_hosts() -> dict[str, list[str]]:
    """Return WEBHOOKS_STATIC_HOSTS, `name=address,…`; a name may appear with several addresses."""
    hosts: dict[str, list[str]] = {}
    for pair in env.list("WEBHOOKS_STATIC_HOSTS", default=[]):
        name, _, address = pair.partition("=")
        hosts.setdefault(name.strip(), []).append(address.strip())
    return hosts


WEBHOOKS = {
    "MASTER_KEYS": master_keys(),
    "ALLOW_NETWORKS": env.list("WEBHOOKS_ALLOW_NETWORKS", default=[]),
    "DENY_HOSTS": env.list("WEBHOOKS_DENY_HOSTS", default=None),
    "REQUIRE_HTTPS": env.bool("WEBHOOKS_REQUIRE_HTTPS", default=True),
    "EXTRA_PORTS": env.list("WEBHOOKS_EXTRA_PORTS", cast=int, default=[]),
    "STATIC_HOSTS": static_hosts(),
    "CA_BUNDLE": env.str("WEBHOOKS_CA_BUNDLE", default="") or None,
    "TRANSPORT": env.str("WEBHOOKS_TRANSPORT", default="requests"),
    "QUEUE": env.str("WEBHOOKS_QUEUE", default="celery"),
    "TESTING": env.bool("WEBHOOKS_TESTING", default=False),
}
