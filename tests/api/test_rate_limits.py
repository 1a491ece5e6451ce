"""How often a caller may ask: buckets, headers, what happens when one is full or the cache is away."""

import logging
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis
from django.contrib.auth import get_user_model
from django.core.cache import cache
from django.http import HttpResponse
from django.test import Client

from tests.api import rows
from tests.api.client import Api, check_problem
from webhooks_app import conf
from webhooks_app.api import rate_limits
from webhooks_app.api.schema import document
from webhooks_app.exceptions import ConfigurationError

pytestmark = pytest.mark.django_db
Limits = Callable[..., None]


@pytest.fixture(autouse=True)
def moment(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """Keep the clock at 20 s after a full minute; the list's only item is the time."""
    at = [1_790_000_000.0 // 60 * 60 + 20]
    monkeypatch.setattr(rate_limits, "now_seconds", lambda: at[0])
    monkeypatch.setattr(rate_limits._Away, "until", -math.inf)
    cache.clear()
    yield at
    cache.clear()


@pytest.fixture
def limits(settings: Any) -> Limits:
    def set_(**values: int | None) -> None:
        everything: dict[str, int | None] = {"key": None, "tenant": None, "partner": None, "operation": None}
        settings.WEBHOOKS = {**settings.WEBHOOKS, "API_RATE_LIMITS": {**everything, **values}}

    return set_


def bucket_of(response: HttpResponse) -> str:
    assert (response.status_code, response.json()["code"]) == (429, "rate_limited")
    check_problem(response)
    assert response.json()["retryable"] is True
    return str(response.json()["details"]["bucket"])


def test_a_key_may_ask_so_often(
    mine: Api, api: Callable[..., Api], limits: Limits, moment: list[float]
) -> None:
    limits(key=3)
    left = [mine.get("/webhooks")["RateLimit-Remaining"] for _ in range(3)]
    assert left == ["2", "1", "0"]
    refused = mine.get("/webhooks")
    assert bucket_of(refused) == "key"
    told = {name: refused[name] for name in ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset")}
    assert told == {"RateLimit-Limit": "3", "RateLimit-Remaining": "0", "RateLimit-Reset": "40"}
    assert refused["Retry-After"] == "40"
    assert api().get("/webhooks").status_code == 200
    moment[0] += 39.5
    assert mine.get("/webhooks")["Retry-After"] == "1"
    moment[0] += 0.5
    assert mine.get("/webhooks")["RateLimit-Remaining"] == "2"


@pytest.mark.parametrize(("bucket", "scope"), [("tenant", "tenant:a"), ("partner", "partner:p")])
def test_keys_of_one_owner_share(api: Callable[..., Api], limits: Limits, bucket: str, scope: str) -> None:
    limits(**{bucket: 2})
    first, second = api(scope), api(scope)
    assert [each.get("/webhooks").status_code for each in (first, second)] == [200, 200]
    assert {bucket_of(each.get("/webhooks")) for each in (first, second)} == {bucket}
    others = [api("tenant:b"), api("partner:q"), api("platform")]
    assert all(each.get("/webhooks").status_code == 200 for each in others)


def test_a_tenant_and_a_partner_of_one_name_do_not(api: Callable[..., Api], limits: Limits) -> None:
    limits(tenant=1, partner=1)
    assert [api(scope).get("/webhooks").status_code for scope in ("tenant:p", "partner:p")] == [200, 200]


def test_costly_operations_have_a_bucket_each(mine: Api, limits: Limits) -> None:
    limits(operation=1, key=100)
    path = f"/webhooks/{rows.endpoint().public_id}"
    costly = {"/test": {}, "/replay": {"event_ids": ["evt_1"]}, "/rotate-secret": {}}
    for verb, body in costly.items():
        assert mine.post(path + verb, body)["RateLimit-Limit"] == "1"
        assert bucket_of(mine.post(path + verb, body)) == "operation"
    create = {"url": "https://x.hooks.test/", "events": ["*"]}
    assert mine.post("/webhooks", create).status_code == 201
    assert bucket_of(mine.post("/webhooks", create)) == "operation"
    for _ in range(3):
        assert mine.get("/webhooks")["RateLimit-Limit"] == "100"
        assert mine.post(f"{path}/pause").status_code == 200


def test_the_fullest_bucket_is_told(mine: Api, limits: Limits) -> None:
    limits(key=10, tenant=4)
    assert mine.get("/webhooks")["RateLimit-Limit"] == "4"
    limits(key=10, tenant=1000)
    assert mine.get("/webhooks")["RateLimit-Limit"] == "10"


def test_refused_requests_change_nothing(mine: Api, limits: Limits) -> None:
    limits(key=1)
    mine.get("/webhooks")
    before = rows.snapshot()
    assert mine.post("/events", {"type": "x.y", "data": {}}, HTTP_IDEMPOTENCY_KEY="k").status_code == 429
    assert rows.snapshot() == before


def test_failures_count_and_strangers_do_not(api: Callable[..., Api], limits: Limits) -> None:
    limits(key=2)
    poor = api(permissions=())
    assert [poor.get("/webhooks").status_code for _ in range(3)] == [403, 403, 429]
    stranger = Api("key_x")
    assert [stranger.get("/webhooks").status_code for _ in range(4)] == [401] * 4
    assert "RateLimit-Limit" not in stranger.get("/webhooks").headers


def test_staff_are_counted_one_by_one(limits: Limits) -> None:
    limits(key=1)
    for name in ("one", "two"):
        client = Client()
        client.force_login(get_user_model().objects.create_superuser(name))
        staff = Api(client=client)
        assert [staff.get("/webhooks").status_code for _ in range(2)] == [200, 429]


def test_without_limits_nothing_is_told(mine: Api, limits: Limits) -> None:
    limits()
    assert "RateLimit-Limit" not in mine.get("/webhooks").headers


def test_a_cache_that_fails_refuses_nobody(
    mine: Api, limits: Limits, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[str] = []

    def fail(key: str, *_: object, **__: object) -> int:
        asked.append(key)
        raise ConnectionError("10.0.0.1:6379")

    limits(key=1)
    monkeypatch.setattr(type(cache._connections[cache._alias]), "incr", fail)  # type: ignore[attr-defined]
    with caplog.at_level(logging.WARNING, "webhooks_app.api"):
        assert [mine.get("/webhooks").status_code for _ in range(3)] == [200, 200, 200]
    assert [record.message for record in caplog.records] == ["requests are not counted, for the cache fails"]
    assert len(asked) == 1
    monkeypatch.setattr(rate_limits._Away, "until", -math.inf)
    mine.get("/webhooks")
    assert len(asked) == 2


def test_requests_at_once_are_counted_one_by_one() -> None:
    with ThreadPoolExecutor(8) as pool:
        counts = list(pool.map(lambda _: rate_limits._add_one("webhooks:test"), range(200)))
    assert sorted(counts) == list(range(1, 201))


def test_redis_counts_for_all(settings: Any, redis_url: str) -> None:
    settings.CACHES = {
        "default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": redis_url}
    }
    with ThreadPoolExecutor(8) as pool:
        counts = list(pool.map(lambda _: rate_limits._add_one("webhooks:test"), range(200)))
    assert sorted(counts) == list(range(1, 201))
    assert 0 < redis.Redis.from_url(redis_url).ttl(cache.make_key("webhooks:test")) <= 120


def test_settings(settings: Any) -> None:
    plain = {name: value for name, value in settings.WEBHOOKS.items() if name != "API_RATE_LIMITS"}
    settings.WEBHOOKS = plain
    assert conf.current().API_RATE_LIMITS == {"key": 600, "tenant": 1800, "partner": 1800, "operation": 30}
    for given, expected in [
        (None, {}),
        ({"key": 5}, {"key": 5, "tenant": 1800, "partner": 1800, "operation": 30}),
        ({"operation": None, "tenant": None, "partner": None}, {"key": 600}),
    ]:
        settings.WEBHOOKS = {**plain, "API_RATE_LIMITS": given}
        assert expected == conf.current().API_RATE_LIMITS
    for wrong in ({"key": 0}, {"key": "5"}, {"key": True}, {"user": 5}, [], 600):
        settings.WEBHOOKS = {**plain, "API_RATE_LIMITS": wrong}
        with pytest.raises(ConfigurationError, match="API_RATE_LIMITS"):
            conf.current()


def test_every_operation_documents_it() -> None:
    for methods in document()["paths"].values():
        for operation in methods.values():
            assert "429" in operation["responses"]
            assert all("RateLimit-Limit" in each["headers"] for each in operation["responses"].values())
