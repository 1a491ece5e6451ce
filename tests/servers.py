"""Fixtures for real servers. Shared ones come from `scripts.test`; a test may also have its own.

Shared for the run (never kill these): `postgres_url`, `redis_url`, `amqp_url`.
Private to one test, to kill, freeze and restart: `own_postgres`, `own_redis`, `own_rabbitmq`.
"""

import os
from collections.abc import Callable, Iterator

import pytest

from scripts.services import Postgres, RabbitMQ, Redis, Server, ServerError


def _private(make: Callable[[], Server]) -> Iterator[Server]:
    try:
        server = make()
    except ServerError as error:
        pytest.skip(f"not run: {error}")
    with server:
        yield server


def _shared(variable: str, make: Callable[[], Server]) -> Iterator[str]:
    url = os.environ.get(variable, "")
    if url and not url.startswith("sqlite"):
        yield url
        return
    for server in _private(make):
        yield server.url


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The run's PostgreSQL; make databases of your own in it."""
    yield from _shared("TEST_DATABASE_URL", lambda: Postgres(durable=False))


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """The run's Redis."""
    yield from _shared("TEST_REDIS_URL", Redis)


@pytest.fixture(scope="session")
def amqp_url() -> Iterator[str]:
    """The run's RabbitMQ."""
    yield from _shared("TEST_AMQP_URL", RabbitMQ)


@pytest.fixture
def own_postgres() -> Iterator[Server]:
    """A durable PostgreSQL for one test."""
    yield from _private(Postgres)


@pytest.fixture
def own_redis() -> Iterator[Server]:
    """A Redis without persistence for one test."""
    yield from _private(Redis)


@pytest.fixture
def own_rabbitmq() -> Iterator[Server]:
    """A RabbitMQ for one test; takes 5 to 8 s to start."""
    yield from _private(RabbitMQ)
