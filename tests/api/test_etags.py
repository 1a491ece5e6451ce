"""ETag, If-Match and If-None-Match of a webhook (RFC 9110, sections 8.8.3 and 13.1)."""

from typing import Any

import pytest

from tests.api import rows
from tests.api.client import Api
from webhooks_app.actions.pause import pause
from webhooks_app.actions.rotate_secret import rotate_secret
from webhooks_app.api.views import webhooks
from webhooks_app.models import Endpoint, EndpointState

pytestmark = pytest.mark.django_db


@pytest.fixture
def path(tenants: None) -> str:
    return f"/webhooks/{rows.endpoint().public_id}"


def etag(api: Api, path: str) -> str:
    return str(api.get(path)["ETag"])


def test_it_is_strong_and_stays_while_nothing_changes(mine: Api, path: str) -> None:
    assert etag(mine, path) == etag(mine, path)
    assert etag(mine, path).startswith('"1-')


def test_a_new_one_has_it_too(mine: Api) -> None:
    response = mine.post("/webhooks", {"url": "https://x.hooks.test/", "events": []})
    assert response["ETag"] == etag(mine, f"/webhooks/{response.json()['id']}")


def test_every_change_gives_another(mine: Api, path: str) -> None:
    endpoint, seen = Endpoint.objects.get(), [etag(mine, path)]

    def look() -> None:
        assert etag(mine, path) not in seen
        seen.append(etag(mine, path))

    assert mine.patch(path, {"description": "x"})["ETag"] == etag(mine, path)
    look()
    pause(rows.OPERATOR, endpoint)
    look()
    rotate_secret(rows.OPERATOR, endpoint)
    look()
    mine.patch(path, {"enabled": False})
    look()
    EndpointState.objects.update(breaker="open")
    look()


def test_a_change_on_condition(mine: Api, path: str) -> None:
    tag = etag(mine, path)
    first = mine.patch(path, {"description": "one"}, HTTP_IF_MATCH=tag)
    assert first.status_code == 200
    before = rows.snapshot()
    second = mine.patch(path, {"description": "two"}, HTTP_IF_MATCH=tag)
    assert (second.status_code, second.json()["code"]) == (412, "precondition_failed")
    assert mine.delete(path, HTTP_IF_MATCH=tag).status_code == 412
    assert rows.snapshot() == before
    assert mine.delete(path, HTTP_IF_MATCH=first["ETag"]).status_code == 204


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ("{}", 200),
        ("  {}  ", 200),
        ('"x", {}', 200),
        ('{} , "y"', 200),
        ("*", 200),
        ("W/{}", 412),
        ('"x"', 412),
        ("", 412),
        ("x", 412),
        ('*, "x"', 412),
        ("no tag at all", 412),
    ],
)
def test_forms_of_if_match(mine: Api, path: str, form: str, status: int) -> None:
    given = form.format(etag(mine, path))
    assert mine.patch(path, {"description": "x"}, HTTP_IF_MATCH=given).status_code == status


def test_a_webhook_that_is_not_there_meets_no_condition(mine: Api) -> None:
    for given in ("*", '"x"'):
        assert mine.patch("/webhooks/whk_x", {"description": "x"}, HTTP_IF_MATCH=given).status_code == 404
        assert mine.delete("/webhooks/whk_x", HTTP_IF_MATCH=given).status_code == 404


def test_other_mistakes_come_first(mine: Api, path: str) -> None:
    assert mine.patch(path, {"nope": 1}, HTTP_IF_MATCH='"x"').status_code == 400


def test_the_condition_is_checked_under_the_locks(mine: Api, path: str, monkeypatch: Any) -> None:
    tag, real = etag(mine, path), webhooks.update_endpoint

    def late(actor: Any, endpoint: Endpoint, changes: Any, **options: Any) -> Any:
        real(actor, endpoint, {"description": "somebody else's"})
        return real(actor, endpoint, changes, **options)

    monkeypatch.setattr(webhooks, "update_endpoint", late)
    assert mine.patch(path, {"description": "mine"}, HTTP_IF_MATCH=tag).status_code == 412
    assert Endpoint.objects.get().description == "somebody else's"


@pytest.mark.parametrize(
    ("form", "status"), [("{}", 304), ("W/{}", 304), ("*", 304), ('"x", {}', 304), ('"x"', 200), ("", 200)]
)
def test_forms_of_if_none_match(mine: Api, path: str, form: str, status: int) -> None:
    tag = etag(mine, path)
    response = mine.get(path, HTTP_IF_NONE_MATCH=form.format(tag))
    assert (response.status_code, response["ETag"]) == (status, tag)
    assert bool(response.content) == (status == 200)
