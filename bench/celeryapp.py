"""The Celery app of the worker under measurement, as a host project has one."""

import os
from pathlib import Path
from typing import Any

from celery import Celery, signals

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "bench.settings")

app = Celery("bench")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.set_default()


@signals.worker_ready.connect  # type: ignore[untyped-decorator]
def tell(**_: Any) -> None:
    """Make the file that says the worker listens."""
    if path := os.environ.get("BENCH_READY"):
        Path(path).touch()
