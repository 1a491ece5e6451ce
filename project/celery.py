"""The Celery app: `celery -A project worker -Q webhooks,webhooks.slow,webhooks.bulk` and `… beat`."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

app = Celery("project")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
