"""The Celery app of the workers that the end-to-end tests start: `celery -A tests.e2e.app worker`."""

import faulthandler
import os
import signal

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.e2e.settings")

from celery import Celery, signals
from celery.concurrency.asynpool import AsynPool

from project import file_broker
from tests.e2e import tuning
from tests.e2e.choice import choice

if choice().broker.startswith("filesystem"):
    file_broker.install()

# Whoever waits in vain for a process asks it where it is; a pool's processes inherit this.
faulthandler.register(signal.SIGUSR2)

app = Celery("e2e")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.set_default()

# Celery looks for dead pool processes every 5 s; tests that kill them are in a hurry.
AsynPool.timers = property(lambda pool: {pool.maintain_pool: 0.5})


@signals.import_modules.connect
def tune(**_: object) -> None:
    """Once Django is set up: shorten times and set the faults."""
    tuning.apply(choice())
