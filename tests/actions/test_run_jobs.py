"""The worker of jobs: exact after a crash, one worker a job, turns between owners, cancelling."""

import time
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.db import OperationalError
from django.utils import timezone

from tests.actions.builders import OPERATOR, make_delivery, make_endpoint, make_event, tenant, together
from tests.actions.jobs import counts, finished, one_batch
from webhooks_app.actions import bulk_retry as bulk_retry_module
from webhooks_app.actions import recover as recover_module
from webhooks_app.actions import run_jobs as run_jobs_module
from webhooks_app.actions.bulk_retry import bulk_retry
from webhooks_app.actions.jobs import cancel_job
from webhooks_app.actions.recover import recover
from webhooks_app.actions.run_jobs import run_jobs, take_turn
from webhooks_app.actions.scope import get_job
from webhooks_app.core.states import EXHAUSTED, PENDING
from webhooks_app.exceptions import Conflict, NotFound, PermissionDenied
from webhooks_app.models import AuditEntry, Delivery, Endpoint, EndpointState, Job
from webhooks_app.pipeline import announce, clock, doorbell
from webhooks_app.pipeline.hints import Hints
from webhooks_app.pipeline.pace import LONGEST_REST, pace

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    for module in (recover_module, bulk_retry_module):
        monkeypatch.setattr(module, "BATCH", 3)


def endpoint_with_dead(number: int, tenant_id: str = "acme") -> Endpoint:
    row = make_endpoint(tenant_id=tenant_id)
    Endpoint.objects.filter(pk=row.pk).update(created_at=timezone.now() - 20 * DAY)
    for place in range(number):
        event = make_event(tenant_id=tenant_id)
        if place % 2:
            make_delivery(row, event, state=EXHAUSTED)
    return row


def recovery(row: Endpoint) -> Job:
    return recover(OPERATOR, row, since=timezone.now() - 2 * DAY)


def queued() -> int:
    return Delivery.objects.filter(state=PENDING).count()


def test_a_job_is_done_in_batches():
    job = recovery(endpoint_with_dead(8))
    assert counts(job) == ("queued", 8, 0, 0)
    assert counts(one_batch(job)) == ("running", 8, 3, 0)
    assert queued() == 3
    assert job.started_at < job.claimed_until <= timezone.now()
    assert counts(one_batch(job)) == ("running", 8, 6, 0)
    assert counts(finished(job)) == ("succeeded", 8, 8, 0)
    assert job.created_at <= job.started_at <= job.finished_at
    assert not take_turn("default", job.pk)


@pytest.mark.parametrize("broken", ["move_on", "queue"])
def test_a_worker_that_dies_in_a_batch_loses_that_batch_alone(broken, monkeypatch):
    job = recovery(endpoint_with_dead(8))
    one_batch(job)

    def die(*_, **__):
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(run_jobs_module if broken == "move_on" else recover_module.requeue, broken, die)
        with pytest.raises(SystemExit):
            run_jobs()
    job.refresh_from_db()
    assert (counts(job), queued()) == (("running", 8, 3, 0), 3)
    # Its claim holds until it lapses; then the next worker goes on exactly there.
    assert not take_turn("default", job.pk)
    assert not run_jobs()
    Job.objects.update(claimed_until=timezone.now() - DAY)
    assert counts(finished(job)) == ("succeeded", 8, 8, 0)
    assert Delivery.objects.count() == queued() == 8


def test_a_worker_that_wakes_up_late_writes_nothing(monkeypatch):
    job = recovery(endpoint_with_dead(8))
    look = recover_module.RecoverSteps.look

    def sleepy(self, alias, claimed):
        portion = look(self, alias, claimed)
        monkeypatch.setattr(recover_module.RecoverSteps, "look", look)
        Job.objects.update(claimed_until=timezone.now() - DAY)
        assert counts(one_batch(job)) == ("running", 8, 3, 0)
        return portion

    monkeypatch.setattr(recover_module.RecoverSteps, "look", sleepy)
    assert take_turn("default", job.pk)
    assert queued() == 3
    assert counts(finished(job)) == ("succeeded", 8, 8, 0)


def test_a_worker_is_rung_for_when_the_job_is_committed(django_capture_on_commit_callbacks, rung):
    row = endpoint_with_dead(2)
    with django_capture_on_commit_callbacks(execute=True):
        recovery(row)
        assert not any(hints.jobs for hints in rung)
    assert [hints.jobs for hints in rung] == [True]


@pytest.fixture
def rung(monkeypatch) -> list[Hints]:
    hints: list[Hints] = []
    monkeypatch.setattr(doorbell, "bell", lambda: SimpleNamespace(ring=hints.append))
    return hints


def test_owners_take_turns_whoever_has_more_jobs(monkeypatch):
    order = []
    batch = run_jobs_module._batch
    monkeypatch.setattr(
        run_jobs_module,
        "_batch",
        lambda alias, turn, wakes: (order.append(turn.job.tenant_id), batch(alias, turn, wakes)),
    )
    rows = [endpoint_with_dead(5, "big") for _ in range(3)] + [endpoint_with_dead(5, "small")]
    for row in rows:
        recovery(row)
    run_jobs()
    assert order[:4] == ["big", "small", "big", "small"]


def test_it_returns_in_time_and_when_it_is_told_to(monkeypatch):
    monkeypatch.setattr(recover_module, "BATCH", 5)
    job = recovery(endpoint_with_dead(8))
    assert run_jobs(stopping=lambda: True)
    job.refresh_from_db()
    assert job.state == "queued"
    assert run_jobs(max_seconds=0), "the batch that passed its time was not the last"
    job.refresh_from_db()
    assert (job.state, job.done) == ("running", 5)
    assert not run_jobs(max_seconds=0)
    assert not run_jobs(max_seconds=0)


def test_one_batch_at_a_time_serves_owners_in_turns_too(monkeypatch):
    monkeypatch.setattr(recover_module, "BATCH", 5)
    jobs = [recovery(endpoint_with_dead(10, name)) for name in ("a", "b", "c")]
    for _ in jobs:
        assert run_jobs(max_seconds=0)
    for job in jobs:
        job.refresh_from_db()
        assert job.done == 5


def test_batches_rest_beside_live_work_and_only_then(monkeypatch):
    monkeypatch.setattr(recover_module, "BATCH", 5)
    rests: list[float] = []
    recovery(endpoint_with_dead(10))
    run_jobs(rest=rests.append)
    assert set(rests) == {0.0}
    rests.clear()
    pace().saw_live(time.monotonic())
    recovery(endpoint_with_dead(10))
    run_jobs(rest=rests.append)
    assert rests
    assert all(0 < each <= LONGEST_REST for each in rests)


@pytest.fixture
def woken(monkeypatch) -> list[set[int]]:
    """Return whom was woken, a set for each time."""
    woken: list[set[int]] = []
    monkeypatch.setattr(announce, "wake", lambda ids, **_: woken.append(set(ids)))
    return woken


def batches_at(job: Job, monkeypatch, *moments: float) -> Job:
    """Do a batch at each of these seconds, as so many slices of one batch."""
    began = timezone.now().replace(microsecond=0)
    for seconds in moments:
        now = began + timedelta(seconds=seconds)
        monkeypatch.setattr(clock, "db_now", lambda alias, now=now: now)
        monkeypatch.setattr(clock, "read", lambda value, now=now: now)
        assert take_turn("default", job.pk)
    job.refresh_from_db()
    return job


def test_batches_of_slices_of_their_own_wake_the_endpoint_twice_a_second(monkeypatch, woken):
    row = endpoint_with_dead(30)
    job = batches_at(recovery(row), monkeypatch, 0.0, 0.1, 0.4, 0.6, 0.7, 1.1)
    assert (job.state, job.done) == ("running", 18)
    assert woken == [{row.pk}] * 3


@pytest.mark.parametrize("end", ["succeeded", "cancelled", "failed"])
def test_a_wake_that_a_batch_owes_comes_with_the_end_of_the_job(end, monkeypatch, woken):
    row = endpoint_with_dead(6)
    job = batches_at(recovery(row), monkeypatch, 0.0)
    del woken[:]
    if end == "cancelled":
        Job.objects.update(cancel_requested_at=timezone.now())
    elif end == "failed":
        EndpointState.objects.update(enabled=False)
    job = batches_at(job, monkeypatch, 0.1)
    assert job.state == end
    assert woken == [{row.pk}]


def test_a_wake_that_a_batch_owes_comes_with_the_cancelling(rung, django_capture_on_commit_callbacks):
    row = endpoint_with_dead(6)
    job = one_batch(recovery(row))
    del rung[:]
    with django_capture_on_commit_callbacks(execute=True):
        assert cancel_job(OPERATOR, job).state == "cancelled"
    assert [set(hints.endpoint_ids) for hints in rung] == [{row.pk}]


def test_a_fault_of_ours_fails_the_job_and_not_the_others(monkeypatch):
    bad, good = recovery(endpoint_with_dead(2, "a")), recovery(endpoint_with_dead(2, "b"))
    Job.objects.filter(pk=bad.pk).update(params={})
    assert counts(finished(good)) == ("succeeded", 2, 2, 0)
    bad.refresh_from_db()
    assert (bad.state, bad.error) == ("failed", "KeyError")
    assert bad.finished_at is not None


def test_a_database_that_hesitates_fails_nothing(monkeypatch):
    job = recovery(endpoint_with_dead(2))

    def locked(*_):
        raise OperationalError("database is locked")

    with monkeypatch.context() as patch:
        patch.setattr(recover_module.RecoverSteps, "look", locked)
        assert take_turn("default", job.pk)
    job.refresh_from_db()
    assert (job.state, job.error) == ("running", "")
    Job.objects.update(claimed_until=None)
    assert counts(finished(job)) == ("succeeded", 2, 2, 0)


def test_a_queued_job_is_cancelled_at_once():
    job = recovery(endpoint_with_dead(2))
    assert cancel_job(OPERATOR, job).state == "cancelled"
    assert cancel_job(OPERATOR, job).state == "cancelled"
    assert counts(finished(job)) == ("cancelled", 2, 0, 0)
    assert AuditEntry.objects.filter(action="job.cancelled").count() == 1


def test_a_running_job_is_cancelled_between_batches(monkeypatch):
    job = recovery(endpoint_with_dead(8))
    one_batch(job)
    look = recover_module.RecoverSteps.look

    def interrupted(self, alias, claimed):
        assert cancel_job(OPERATOR, job).state == "running"
        return look(self, alias, claimed)

    monkeypatch.setattr(recover_module.RecoverSteps, "look", interrupted)
    assert counts(one_batch(job)) == ("cancelled", 8, 3, 0)
    assert queued() == 3


def test_a_cancelled_job_of_a_dead_worker_is_ended_by_the_next():
    job = recovery(endpoint_with_dead(8))
    Job.objects.update(state="running", claimed_until=timezone.now() + DAY)
    assert cancel_job(OPERATOR, job).state == "running"
    Job.objects.update(claimed_until=timezone.now() - DAY)
    assert counts(finished(job)) == ("cancelled", 8, 0, 0)


def test_an_ended_job_cannot_be_cancelled_nor_anybody_elses():
    job = finished(recovery(endpoint_with_dead(2)))
    with pytest.raises(Conflict) as caught:
        cancel_job(OPERATOR, job)
    assert caught.value.code == "job_ended"
    with pytest.raises(NotFound) as missing:
        cancel_job(tenant("other"), job)
    assert missing.value.code == "job_not_found"
    with pytest.raises(PermissionDenied):
        cancel_job(tenant(permissions=frozenset({"webhooks:read"})), job)


def test_jobs_are_seen_by_their_owners():
    job = recovery(endpoint_with_dead(2))
    whole = bulk_retry(OPERATOR)
    assert get_job(tenant(), job.public_id) == job
    assert get_job(OPERATOR, whole.public_id) == whole
    for actor, public_id in (
        (tenant("other"), job.public_id),
        (tenant(environment="test"), job.public_id),
        (tenant(), whole.public_id),
        (OPERATOR, "job_unknown"),
    ):
        with pytest.raises(NotFound):
            get_job(actor, public_id)


@pytest.mark.pg
@pytest.mark.django_db(transaction=True)
def test_workers_at_once_do_every_job_once():
    rows = [endpoint_with_dead(20, name) for name in ("a", "b")]
    done = [recovery(row) for row in rows] + [bulk_retry(OPERATOR)]
    assert not any(together(*[run_jobs] * 4))
    deadline = timezone.now() + timedelta(seconds=20)
    while Job.objects.filter(state__in=["queued", "running"]).exists() and timezone.now() < deadline:
        run_jobs()
    for job in done:
        job.refresh_from_db()
        assert (job.state, job.total, job.done + job.skipped) == ("succeeded", job.total, job.total)
    assert queued() == Delivery.objects.count() == 40
