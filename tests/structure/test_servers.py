"""The private servers of tests and benches."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from scripts.processes import wait_until
from scripts.services import Postgres, Redis

STARTED = """
import sys, time
from scripts.services import Redis
server = Redis().start()
print(server.pid, server.folder, flush=True)
time.sleep(60)
"""


def _alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def test_redis_comes_back_on_the_same_port(own_redis: Redis):
    port = own_redis.port
    own_redis.kill()
    assert not own_redis.ready()
    own_redis.start()
    assert (own_redis.port, own_redis.ready()) == (port, True)


def test_frozen_redis_accepts_and_does_not_answer(own_redis: Redis):
    with own_redis.frozen():
        assert not own_redis.ready()
        assert own_redis.running
    assert own_redis.ready()


def test_durable_postgres_keeps_rows_over_a_crash(own_postgres: Postgres):
    own_postgres.sql("CREATE TABLE kept AS SELECT 7 AS n")
    own_postgres.kill()
    own_postgres.start()
    assert own_postgres.sql("SELECT n FROM kept") == "7"


def test_server_dies_with_the_process_that_started_it():
    owner = subprocess.Popen([sys.executable, "-c", STARTED], stdout=subprocess.PIPE, text=True)
    with owner:
        assert owner.stdout is not None
        pid, folder = owner.stdout.readline().split()
        assert _alive(int(pid))
        os.kill(owner.pid, signal.SIGKILL)
    assert wait_until(lambda: not _alive(int(pid)), seconds=5)
    assert wait_until(lambda: not Path(folder).exists(), seconds=5)


def test_nothing_is_left_after_close():
    with Redis() as server:
        folder = server.folder
    assert not folder.exists()
