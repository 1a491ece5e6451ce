"""The Celery app of the test suite, as a host project has one."""

from celery import Celery

app = Celery("tests")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.set_default()
