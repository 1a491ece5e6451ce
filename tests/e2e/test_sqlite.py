"""SQLite and the demo's filesystem broker: two processes on one machine, without any server (B136)."""

import pytest
from django.core.management import call_command
from kombu.transport import TRANSPORT_ALIASES

from project import file_broker
from tests.celeryapp import app
from tests.e2e.broker import Broker, celery_uses
from tests.e2e.conftest import forget_process_state
from tests.e2e.database import alias_for
from tests.e2e.receiver import Receiver, Reply
from tests.e2e.settings import ALIAS, webhooks
from tests.e2e.stage import Stage


@pytest.fixture
def sqlite_stage(tmp_path, settings, django_db_blocker, monkeypatch):
    monkeypatch.setitem(TRANSPORT_ALIASES, "filesystem", TRANSPORT_ALIASES["filesystem"])
    file_broker.install()
    url = f"sqlite:///{tmp_path}/webhooks.sqlite3"
    inbox = tmp_path / "broker"
    inbox.mkdir()
    folders = dict.fromkeys(("data_folder_in", "data_folder_out", "control_folder"), str(inbox))
    broker = Broker("filesystem://", options={**folders, "polling_interval": 0.05})
    with (
        django_db_blocker.unblock(),
        Receiver() as receiver,
        alias_for(url),
        celery_uses(app, broker),
    ):
        call_command("migrate", database=ALIAS, verbosity=0)
        settings.WEBHOOKS = webhooks(receiver.port)
        forget_process_state()
        stage = Stage(tmp_path, app, broker, receiver, url)
        yield stage
        stage.close()
        forget_process_state()


@pytest.mark.parametrize("pool", ["solo", "prefork"])
def test_a_web_process_and_a_worker(sqlite_stage, pool):
    stage = sqlite_stage
    stage.receiver.on("a", lambda post: Reply(500 if post.attempt == 1 else 200))
    for name in ("a", "b"):
        stage.endpoint(name)
    worker = stage.worker(pool=pool, concurrency=2)
    stage.tick()
    events = stage.emit(40)
    stage.settle(40)
    assert not worker.said("database is locked"), worker.text()[-2000:]
    assert {post.event_id for post in stage.receiver.posts} == set(events)
    assert stage.receiver.count("a") == 80
    assert stage.receiver.count("b") == 40
    numbers = stage.rows("SELECT number, count(*) FROM webhooks_app_attempt GROUP BY 1 ORDER BY 1")
    assert numbers == [(1, 80), (2, 40)]
