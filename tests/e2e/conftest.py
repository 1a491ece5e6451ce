"""Fixtures of the end-to-end tests. `stage` is on Redis; `make_stage` takes any broker."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.celeryapp import app
from tests.e2e.broker import Broker, celery_uses, redis_broker
from tests.e2e.database import alias_for, fresh_database
from tests.e2e.receiver import Receiver
from tests.e2e.settings import webhooks
from tests.e2e.stage import Stage
from webhooks_app.destinations import https
from webhooks_app.pipeline import doorbell

MakeStage = Callable[..., Stage]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is in this folder."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.e2e)


@pytest.fixture
def make_stage(
    request: pytest.FixtureRequest, tmp_path: Path, settings: Any, django_db_blocker: Any
) -> Iterator[MakeStage]:
    """Return a function that sets a stage: make_stage(broker, postgres=URL, receiver=…)."""
    stack = contextlib.ExitStack()

    def make(
        broker: Broker, *, postgres: str = "", receiver: Receiver | None = None, **options: Any
    ) -> Stage:
        server = postgres or request.getfixturevalue("postgres_url")
        stack.enter_context(django_db_blocker.unblock())
        url = stack.enter_context(fresh_database(server))
        heard = stack.enter_context(receiver or Receiver())
        settings.WEBHOOKS = webhooks(heard.port, QUEUE_NAME=broker.queue, **options)
        stack.enter_context(alias_for(url))
        stack.enter_context(celery_uses(app, broker))
        stack.callback(forget_process_state)
        forget_process_state()
        stage = Stage(tmp_path, app, broker, heard, url)
        stack.callback(stage.close)
        stage.choice.webhooks |= options
        return stage

    yield make
    stack.close()


def forget_process_state() -> None:
    """A doorbell and a transport belong to the settings they were made with."""
    if doorbell._bell is not None:
        queue = doorbell._bell._queue
        with contextlib.suppress(AttributeError):
            queue.close()
    doorbell.reset()
    https.reset()


@pytest.fixture
def stage(make_stage: MakeStage, redis_url: str) -> Stage:
    """A stage on the run's Redis and PostgreSQL."""
    return make_stage(redis_broker(redis_url))
