"""Lists find by id, cost a fixed number of queries, and never count or sort a whole table (B129)."""

from typing import Any

import pytest
from django.test import Client

from tests.admin import rows
from tests.admin.pages import list_url, listed, page_url
from webhooks_app.actions.api_keys import create_api_key
from webhooks_app.admin import change_list
from webhooks_app.models import ApiKey, AuditEntry, Endpoint, Event, Partner, Tenant

pytestmark = pytest.mark.django_db
MODELS = [
    "endpoint",
    "event",
    "delivery",
    "attempt",
    "auditentry",
    "outboxentry",
    "tenant",
    "partner",
    "apikey",
]
# Session and user, the capped count, the page; deliveries and attempts also fetch their neighbours, endpoints
# the time and who is sent to.
QUERIES = dict.fromkeys(MODELS, 4) | {"delivery": 6, "attempt": 5, "endpoint": 6}


def fill(number: int) -> None:
    """Make rows of every kind."""
    partner = Partner.objects.create(id=f"partner-{number}")
    Tenant.objects.create(id=f"tenant-{number}", partner=partner)
    create_api_key(rows.OPERATOR, scope="platform", name="ci")
    for _ in range(number):
        endpoint = rows.endpoint(tenant_id=f"tenant-{number}")
        rows.attempt(rows.delivery(endpoint))
        rows.entry()


@pytest.mark.parametrize("model", MODELS)
def test_a_list_costs_the_same_for_one_row_and_for_many(
    boss: Client, model: str, django_assert_num_queries: Any
) -> None:
    fill(1)
    boss.get(list_url(model))
    with django_assert_num_queries(QUERIES[model]):
        assert len(listed(boss, model)) >= 1
    fill(7)
    with django_assert_num_queries(QUERIES[model]):
        assert len(listed(boss, model)) >= 2


@pytest.mark.parametrize("model", MODELS)
def test_no_query_of_a_list_counts_distinguishes_or_joins_without_bound(
    boss: Client, model: str, django_assert_max_num_queries: Any
) -> None:
    fill(2)
    with django_assert_max_num_queries(10) as captured:
        boss.get(list_url(model))
    for sql in (each["sql"] for each in captured.captured_queries):
        assert "DISTINCT" not in sql
        assert "COUNT(" not in sql or "LIMIT 100000" in sql
        assert model == "endpoint" or " JOIN " not in sql


@pytest.mark.parametrize("model", MODELS)
def test_a_free_look_up_is_refused(boss: Client, model: str) -> None:
    for lookup in ("sha256__startswith", "id__gte", "reply_body__contains", "secrets__sealed__contains"):
        answer = boss.get(list_url(model), {lookup: "1"})
        assert answer.status_code in {302, 400}
        assert "cl" not in (answer.context or {})


def test_pages_beyond_the_cap_do_not_exist(boss: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_list, "COUNT_CAP", 3)
    for _ in range(5):
        rows.event()
    answer = boss.get(list_url("event"))
    assert answer.context["cl"].result_count == 3


def test_pages_are_complete_and_do_not_overlap(boss: Client) -> None:
    made = {rows.event(occurred_at=rows.NOW).pk for _ in range(120)}
    pages = [listed(boss, "event", p=number) for number in (1, 2, 3)]
    assert [len(page) for page in pages] == [50, 50, 20]
    assert {pk for page in pages for pk in page} == made


def test_sorting_by_any_column_is_not_offered(boss: Client) -> None:
    first, second = rows.event(), rows.event()
    assert listed(boss, "event", o="2") == listed(boss, "event") == [second.pk, first.pk]


def test_events_are_found_by_id_prefix_tenant_and_partner(boss: Client) -> None:
    mine = rows.event(public_id="order_1001_paid", partner_id="umbrella")
    other = rows.event(public_id="order_1002_paid", tenant_id="other")
    assert listed(boss, "event", q="order_1001_paid") == [mine.pk]
    assert listed(boss, "event", q=" order_1001") == [mine.pk]
    assert listed(boss, "event", q="order_") == [other.pk, mine.pk]
    assert listed(boss, "event", q="order") == []
    assert listed(boss, "event", q="tenant:other") == [other.pk]
    assert listed(boss, "event", q="partner:umbrella") == [mine.pk]
    assert listed(boss, "event", q="nothing'; --") == []


def test_deliveries_are_found_by_each_of_their_ids(boss: Client) -> None:
    mine, other = rows.delivery(rows.endpoint()), rows.delivery(rows.endpoint())
    for term in (mine.public_id, mine.endpoint.public_id, mine.event.public_id):
        assert listed(boss, "delivery", q=term) == [mine.pk]
    assert listed(boss, "delivery") == [other.pk, mine.pk]
    assert listed(boss, "delivery", q="whk_" + "0" * 26) == []
    assert listed(boss, "delivery", q="evt_unknown") == []


def test_attempts_are_found_by_each_of_their_ids(boss: Client) -> None:
    mine, _ = rows.attempt(rows.delivery(rows.endpoint())), rows.attempt(rows.delivery(rows.endpoint()))
    assert mine.delivery is not None
    for term in (mine.public_id, mine.delivery.public_id, mine.endpoint.public_id, mine.event_id):
        assert listed(boss, "attempt", q=term) == [mine.pk]
    assert listed(boss, "attempt", q="evt_unknown") == []


def test_endpoints_are_found_by_id_owner_and_host(boss: Client) -> None:
    mine = rows.endpoint(tenant_id="birch", url="https://birch.customer.com/in")
    rows.endpoint()
    for term in (mine.public_id, "birch", "birch.customer"):
        assert listed(boss, "endpoint", q=term) == [mine.pk]


def test_audit_entries_are_found_by_target_and_tenant(boss: Client) -> None:
    mine = rows.endpoint(tenant_id="birch")
    rows.endpoint()
    [entry] = AuditEntry.objects.filter(target_id=mine.public_id)
    for term in (mine.public_id, entry.public_id, "tenant:birch"):
        assert listed(boss, "auditentry", q=term) == [entry.pk]


def test_keys_tenants_and_outbox_entries_are_found_by_id(boss: Client) -> None:
    created = create_api_key(rows.OPERATOR, scope="tenant", scope_id="birch", name="night job")
    for term in (created.api_key.public_id, "birch", "night"):
        assert listed(boss, "apikey", q=term) == [created.api_key.pk]
    entry = rows.entry()
    assert listed(boss, "outboxentry", q=entry.event_id) == [entry.pk]
    Tenant.objects.create(id="tenant-birch")
    assert listed(boss, "tenant", q="tenant-b") == ["tenant-birch"]


@pytest.mark.parametrize("term", ["\x00", "%", "_", "'", "é" * 300, "\ud800", "dlv_" + "7" + "Z" * 25])
@pytest.mark.parametrize("model", MODELS)
def test_a_strange_search_finds_nothing_and_breaks_nothing(boss: Client, model: str, term: str) -> None:
    fill(1)
    answer = boss.get(list_url(model), {"q": term.encode("utf-8", "surrogatepass")})
    assert answer.status_code in {200, 302}


def test_a_state_is_looked_for_among_what_the_search_found(
    boss: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy, quiet = rows.endpoint(), rows.endpoint()
    dead = rows.delivery(quiet, state="exhausted")
    alive = rows.delivery(quiet)
    newer = [rows.delivery(busy, state="exhausted").pk for _ in range(3)]
    monkeypatch.setattr(change_list, "RECENT", 3)
    assert listed(boss, "delivery", state="exhausted") == newer[::-1]
    assert listed(boss, "delivery", state="exhausted", q=quiet.public_id) == [dead.pk]
    assert listed(boss, "delivery", state="pending", q=quiet.public_id) == [alive.pk]


def test_attempts_are_filtered_by_status_and_trigger(boss: Client) -> None:
    job = rows.delivery(rows.endpoint())
    failed = rows.attempt(job)
    good = rows.attempt(job, number=2, status="succeeded", trigger="manual")
    assert listed(boss, "attempt", status="failed") == [failed.pk]
    assert listed(boss, "attempt", trigger="manual") == [good.pk]
    assert listed(boss, "attempt", trigger="manual", status="failed") == []


def test_endpoints_are_filtered_by_situation(boss: Client) -> None:
    on, off, paused, gone = (rows.endpoint() for _ in range(4))
    off.state.__class__.objects.filter(pk=off.pk).update(enabled=False)
    off.state.__class__.objects.filter(pk=paused.pk).update(paused_at=rows.NOW)
    Endpoint.objects.filter(pk=gone.pk).update(deleted_at=rows.NOW)
    assert listed(boss, "endpoint") == [paused.pk, off.pk, on.pk]
    assert listed(boss, "endpoint", situation="disabled") == [off.pk]
    assert listed(boss, "endpoint", situation="paused") == [paused.pk]
    assert listed(boss, "endpoint", situation="deleted") == [gone.pk]


def test_outbox_entries_that_wait_or_were_set_aside(boss: Client) -> None:
    waiting, aside = rows.entry(), rows.entry(set_aside_at=rows.NOW, failures=3)
    rows.entry(dispatched_at=rows.NOW)
    assert listed(boss, "outboxentry", progress="waiting") == [waiting.pk]
    assert listed(boss, "outboxentry", progress="set_aside") == [aside.pk]


def test_evidence_outlives_what_it_points_to(boss: Client) -> None:
    job = rows.delivery(rows.endpoint(), state="exhausted")
    seen = rows.attempt(job)
    Event.objects.filter(pk=job.event_id).delete()
    Endpoint.objects.filter(pk=job.endpoint_id).update(deleted_at=rows.NOW)
    assert listed(boss, "delivery") == [job.pk]
    assert listed(boss, "attempt") == [seen.pk]
    assert boss.get(page_url("delivery", job.pk)).status_code == 200
    job.delete()
    assert boss.get(page_url("attempt", seen.pk)).status_code == 200


def test_tables_in_another_database_are_read_there(boss: Client, settings: Any) -> None:
    assert ApiKey.objects.count() == 0
    settings.WEBHOOKS = {**settings.WEBHOOKS, "OUTBOX_DATABASES": ["default", "second"]}
    answer = boss.get(list_url("outboxentry"))
    assert "database=second" in answer.content.decode()
