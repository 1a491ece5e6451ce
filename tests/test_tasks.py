"""Celery's side: which workers may start."""

from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings as django_settings

from webhooks_app.tasks import refuse_to_start


def worker(pool: str = "celery.concurrency.prefork:TaskPool", queue: str = "webhooks") -> Any:
    queues = SimpleNamespace(consume_from={queue: None})
    return SimpleNamespace(pool_cls=pool, app=SimpleNamespace(amqp=SimpleNamespace(queues=queues)))


def test_a_sound_worker_starts():
    refuse_to_start(worker())


def test_an_error_in_the_settings_ends_the_worker_and_says_how_to_mend_it(settings: Any):
    settings.WEBHOOKS = {**django_settings.WEBHOOKS, "MASTER_KEYS": []}
    with pytest.raises(SystemExit, match="E002") as caught:
        refuse_to_start(worker())
    assert "MASTER_KEYS" in str(caught.value)


def test_a_worker_of_other_queues_is_not_our_business(settings: Any):
    settings.WEBHOOKS = {**django_settings.WEBHOOKS, "MASTER_KEYS": []}
    refuse_to_start(worker(pool="gevent", queue="mail"))


@pytest.mark.parametrize(
    "pool", ["celery.concurrency.gevent:TaskPool", "celery.concurrency.eventlet:TaskPool"]
)
def test_green_threads_are_refused(pool: str):
    with pytest.raises(SystemExit, match="prefork, threads or solo"):
        refuse_to_start(worker(pool=pool))
