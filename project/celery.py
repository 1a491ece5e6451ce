"""The Celery app: `celery -A project worker -Q webhooks` and `… beat`."""

import os

from celery import Celery

from project import file_broker

file_broker.install()
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")

app = Celery("project")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
