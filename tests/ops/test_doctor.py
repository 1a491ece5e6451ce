"""The doctor: each fault is found, named with its remedy, and hides no other."""

import base64
import re
import socket
import threading
import time
from collections.abc import Iterable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from tests.actions.builders import OPERATOR, leased, make_delivery, make_endpoint, make_event
from tests.management.calling import run
from webhooks_app.actions.disable import disable
from webhooks_app.ids import new_id
from webhooks_app.models import EndpointSecret, EndpointState, Job, OutboxEntry, PipelineLock
from webhooks_app.net import resolver
from webhooks_app.ops.doctor import Finding, Level, database, examine, surroundings
from webhooks_app.pipeline import clock, queue

pytestmark = pytest.mark.django_db

OTHER_KEY = base64.b64encode(bytes(32)).decode()


@pytest.fixture(autouse=True)
def healthy(network: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation without a fault: names resolve, a tick was seen, loopback is refused."""
    network(STATIC_HOSTS={}, ALLOW_NETWORKS=[])
    monkeypatch.setattr(resolver, "_look_up", lambda host, timeout: ("93.184.216.34",))
    PipelineLock.objects.create(name="tick", value=int(time.time()))


def of(subject: str) -> list[Finding]:
    """Return the findings about one subject."""
    return [finding for finding in examine() if finding.subject == subject]


def worst(subject: str) -> Finding:
    """Return the only finding about a subject that is not good."""
    (finding,) = [finding for finding in of(subject) if finding.level is not Level.OK]
    return finding


def test_a_healthy_installation():
    findings = list(examine())
    assert {finding.level for finding in findings} == {Level.OK}
    subjects = ["settings", "database default", "broker", "master keys", "clock", "DNS", "guard"]
    subjects += ["outbox default", "tick", "deliveries", "jobs", "webhooks"]
    assert list(dict.fromkeys(finding.subject for finding in findings)) == subjects


def test_the_command_prints_each_line_and_ends_well():
    ran = run("webhooks_doctor")
    assert ran.code == 0
    assert all(line.startswith("ok    ") for line in ran.out.splitlines())
    assert "all migrations are applied" in ran.out


def test_the_command_fails_with_a_remedy_for_each_fault():
    PipelineLock.objects.all().delete()
    ran = run("webhooks_doctor")
    assert ran.code == 1
    assert "FAIL  tick: was never seen\n      -> Start the workers" in ran.out
    assert "1 of these" in ran.fault


def test_wrong_settings_stop_the_examination(network):
    network(SPEED="fast")
    first, *_, last = examine()
    assert (first.level, first.subject) == (Level.FAILED, "settings")
    assert "SPEED" in first.message
    assert last.level is Level.SKIPPED


def test_a_doubtful_setting_does_not(network):
    network(MASTER_KEYS=[])
    assert worst("settings").level is Level.FAILED
    assert of("tick")


def test_a_database_that_is_away(monkeypatch):
    def refuse() -> None:
        raise OperationalError("password of pr0d refused")

    monkeypatch.setattr(connection, "ensure_connection", refuse)
    finding = worst("database default")
    assert (finding.level, finding.message) == (Level.FAILED, "cannot be reached (OperationalError)")


def test_a_database_that_fails_later_hides_no_other_check(monkeypatch):
    def fail(alias: str) -> None:
        raise OperationalError

    monkeypatch.setattr(clock, "db_now", fail)
    assert worst("clock").level is Level.SKIPPED
    assert of("guard")[0].level is Level.OK


def test_missing_migrations(monkeypatch):
    real = MigrationExecutor.migration_plan

    def everything(self: MigrationExecutor, targets: Any, clean_start: bool = False) -> Any:
        return real(self, targets, clean_start=True)

    monkeypatch.setattr(MigrationExecutor, "migration_plan", everything)
    finding = worst("database default")
    assert "0001_initial" in finding.message
    assert "migrate --database default" in finding.fix


def test_a_missing_table(monkeypatch):
    real = connection.introspection.table_names
    kept = [name for name in real() if name != OutboxEntry._meta.db_table]
    monkeypatch.setattr(connection.introspection, "table_names", lambda *_: kept)
    finding = worst("database default")
    assert finding.level is Level.FAILED
    assert finding.message == f"tables are missing: {OutboxEntry._meta.db_table}"


@pytest.mark.django_db(databases=["default", "second"])
def test_every_outbox_database_is_looked_at(network):
    network(OUTBOX_DATABASES=["default", "second"])
    assert len(of("database second")) == len(of("database default"))
    assert of("outbox second")


def levels(findings: Iterable[Finding]) -> list[Level]:
    """Return the levels of findings that are not good."""
    return [finding.level for finding in findings if finding.level is not Level.OK]


@pytest.mark.parametrize(
    ("version", "isolation", "replica", "bad"),
    [
        ((14, 0), "read committed", False, []),
        ((18, 1), "repeatable read", False, [Level.WARNING]),
        ((13, 9), "read committed", False, [Level.FAILED]),
        ((15, 0), "read committed", True, [Level.FAILED]),
    ],
)
def test_what_is_wrong_with_a_postgresql(version, isolation, replica, bad):
    assert levels(database.postgresql("database", version, isolation, replica=replica)) == bad


@pytest.mark.parametrize(
    ("version", "journal", "mode", "bad"),
    [
        ((3, 35, 0), "wal", "IMMEDIATE", []),
        ((3, 40, 0), "memory", "exclusive", []),
        ((3, 34, 9), "wal", "IMMEDIATE", [Level.FAILED]),
        ((3, 40, 0), "delete", "None", [Level.WARNING, Level.WARNING]),
    ],
)
def test_what_is_wrong_with_an_sqlite(version, journal, mode, bad):
    assert levels(database.sqlite("database", version, journal, mode)) == bad


def test_another_database_is_refused():
    (finding,) = database._unsupported("database", SimpleNamespace(vendor="mysql"))
    assert (finding.level, finding.message) == (Level.FAILED, "is mysql")


def test_a_broker_that_is_there(network):
    network(QUEUE="celery")
    assert of("broker")[0].message == "reachable"


def test_a_broker_that_is_away(network, monkeypatch):
    network(QUEUE="celery")
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://:pr0d@127.0.0.1:1/0")
    finding = worst("broker")
    assert "cannot be reached" in finding.message
    assert "pr0d" not in str(finding)


def test_a_broker_whose_transport_cannot_be_imported(network, monkeypatch):
    network(QUEUE="celery")

    def ping(seconds):
        raise ModuleNotFoundError("No module named 'packaging'", name="packaging")

    monkeypatch.setattr(surroundings.queue, "ping", ping)
    finding = worst("broker")
    assert "needs the package packaging" in finding.message
    assert finding.fix == "Run: pip install packaging"


def test_a_broker_that_never_answers_is_given_up(network, monkeypatch):
    network(QUEUE="celery")
    monkeypatch.setattr(surroundings, "BROKER_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as frozen:
        monkeypatch.setenv("CELERY_BROKER_URL", f"amqp://127.0.0.1:{frozen.getsockname()[1]}//")
        started = time.monotonic()
        assert worst("broker").level is Level.FAILED
        assert time.monotonic() - started < 2


def test_a_ping_that_hangs_is_given_up(network, monkeypatch):
    network(QUEUE="celery")
    monkeypatch.setattr(surroundings, "BROKER_SECONDS", 0.05)
    release = threading.Event()
    monkeypatch.setattr(queue, "ping", lambda timeout: release.wait(10))
    finding = worst("broker")
    release.set()
    assert "gives no answer" in finding.message


@pytest.mark.parametrize("header", [True, False])
def test_a_key_that_is_missing(network, header):
    network(STATIC_HOSTS={"*.customer.com": ["127.0.0.1"]}, ALLOW_NETWORKS=["127.0.0.0/8"])
    row = make_endpoint(headers=[{"name": "X-Key", "value": "x", "secret": True}])
    make_endpoint()
    if header:
        EndpointSecret.objects.all().delete()
    assert "all of" in of("master keys")[0].message
    network(MASTER_KEYS=[OTHER_KEY])
    finding = worst("master keys")
    assert finding.level is Level.FAILED
    assert (row.public_id in finding.message) == header
    assert "MASTER_KEYS" in finding.fix


@pytest.mark.parametrize(
    ("seconds", "level"), [(1, Level.OK), (-1, Level.OK), (-9, Level.WARNING), (300, Level.FAILED)]
)
def test_clocks_that_differ(monkeypatch, seconds, level):
    monkeypatch.setattr(clock, "translate", lambda moment: moment + timedelta(seconds=seconds))
    (finding,) = of("clock")
    assert finding.level is level


def test_a_resolver_that_does_not_answer(monkeypatch):
    def fail(host: str, timeout: float) -> None:
        raise resolver.ResolutionError("dns_timeout")

    monkeypatch.setattr(resolver, "_look_up", fail)
    finding = worst("DNS")
    assert (finding.level, finding.message) == (
        Level.WARNING,
        "example.com cannot be looked up (dns_timeout)",
    )


def test_the_name_looked_up_is_the_newest_endpoints(monkeypatch):
    make_endpoint(url="https://old.receiver.com/")
    make_endpoint(url="https://new.receiver.com/T0P?token=S3CRET")
    assert of("DNS")[0].message == "new.receiver.com has 1 addresses"


def test_loopback_is_admitted_on_purpose_only(network):
    network(ALLOW_NETWORKS=["127.0.0.0/8"])
    assert worst("guard").level is Level.WARNING
    network(TESTING=False)
    assert [finding.level for finding in of("guard")] == [Level.OK]


@pytest.mark.parametrize(("age", "level"), [(1, Level.OK), (60, Level.WARNING), (600, Level.FAILED)])
def test_events_that_wait(age, level):
    make_event(age=timedelta(seconds=age))
    make_event(age=timedelta(days=1))
    newest = OutboxEntry.objects.latest("recorded_at")
    OutboxEntry.objects.filter(pk=newest.pk).update(dispatched_at=None)
    assert of("outbox default")[0].level is level


def test_events_that_were_set_aside():
    event = make_event(age=timedelta(days=1))
    OutboxEntry.objects.update(dispatched_at=None, set_aside_at=timezone.now())
    finding = worst("outbox default")
    assert finding.level is Level.FAILED
    assert event.public_id in finding.message


@pytest.mark.parametrize(("age", "level"), [(1, Level.OK), (60, Level.WARNING)])
def test_a_delivery_that_is_overdue(age, level):  # B016
    row, resting = make_endpoint(), make_endpoint()
    EndpointState.objects.filter(pk=resting.pk).update(paused_at=timezone.now())
    now = timezone.now()
    for endpoint, ago in ((row, 0), (row, age), (resting, 9_000)):
        make_delivery(endpoint, due_at=now - timedelta(seconds=ago))
    make_delivery(row, due_at=now - timedelta(seconds=8_000), **leased())
    make_delivery(row, due_at=now + timedelta(hours=1))
    (finding,) = of("deliveries")
    assert finding.level is level
    assert row.public_id in finding.message
    assert 0 <= int(re.search(r"(\d+) s ago", finding.message)[1]) - age < 30


def test_nothing_is_overdue():
    make_delivery(make_endpoint(), state="delivered")
    assert [finding.level for finding in of("deliveries")] == [Level.OK]


def test_a_tick_of_long_ago():
    PipelineLock.objects.update(value=int(time.time()) - 3600)
    assert worst("tick").level is Level.FAILED


def make_job(*, age: float, **values: Any) -> Job:
    begun = timezone.now() - timedelta(minutes=age)
    return Job.objects.create(public_id=new_id("job"), kind=Job.Kind.RECOVER, created_at=begun, **values)


@pytest.mark.parametrize(
    ("ages", "level"),
    [
        ({"age": 1}, Level.OK),
        ({"age": 4}, Level.FAILED),
        ({"age": 60, "state": "running", "claimed": 1}, Level.OK),
        ({"age": 60, "state": "running", "claimed": 4}, Level.FAILED),
        ({"age": 60, "state": "succeeded"}, Level.OK),
    ],
)
def test_a_job_that_stands_still(ages, level, network):
    network(BULK_QUEUE_NAME="webhooks.bulk")
    values = dict(ages)
    claimed = values.pop("claimed", None)
    moved = claimed and timezone.now() - timedelta(minutes=claimed)
    make_job(**values, claimed_until=moved)
    (finding,) = of("jobs")
    assert finding.level is level
    assert ("webhooks.bulk" in finding.fix) == (level is Level.FAILED)


@pytest.mark.parametrize("sign", [{"state": "succeeded"}, {"state": "running"}])
def test_jobs_wait_for_others_that_move(sign):
    make_job(age=60)
    column = "finished_at" if sign["state"] == "succeeded" else "claimed_until"
    make_job(age=50, **sign, **{column: timezone.now()})
    assert [finding.level for finding in of("jobs")] == [Level.OK]


def test_webhooks_that_failed():
    row = make_endpoint()
    disable(OPERATOR, make_endpoint())
    disable(OPERATOR, row, reason="failing")
    finding = worst("webhooks")
    assert finding.level is Level.WARNING
    assert row.public_id in finding.message


def test_a_check_that_breaks_is_a_finding(monkeypatch):
    def fail() -> None:
        raise RuntimeError("S3CRET")

    monkeypatch.setattr(surroundings, "net_options", fail)
    assert [finding.level for finding in examine()].count(Level.FAILED) == 2
    assert "S3CRET" not in str(list(examine()))
