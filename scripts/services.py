"""The servers of tests, benches and the chaos suite, each private to the process that starts it.

    with Postgres(durable=False) as postgres, Redis() as redis:
        postgres.url, redis.url
        redis.freeze(); redis.thaw(); redis.kill(); redis.start()

Command line: `python -m scripts.services` names the servers that can run here.
"""

from scripts import postgres_server, rabbitmq_server, redis_server
from scripts.postgres_server import Postgres
from scripts.processes import Server, ServerError
from scripts.rabbitmq_server import RabbitMQ
from scripts.redis_server import Redis

__all__ = ["PACKAGES", "Postgres", "RabbitMQ", "Redis", "Server", "ServerError", "missing"]

# Debian's package of each server.
PACKAGES = {"postgresql": "PostgreSQL", "redis-server": "Redis", "rabbitmq-server": "RabbitMQ"}


def missing() -> list[str]:
    """Return the Debian packages of the servers that are not installed."""
    found = {
        "postgresql": postgres_server.find_bin(),
        "redis-server": redis_server.find_program(),
        "rabbitmq-server": rabbitmq_server.find_program(),
    }
    return [package for package, program in found.items() if program is None]


if __name__ == "__main__":
    absent = missing()
    for package, title in PACKAGES.items():
        print(f"{title:12} {'missing: apt-get install ' + package if package in absent else 'ok'}")
