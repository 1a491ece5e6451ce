"""API keys: made by the operator only, shown once, stored as a hash; what a key stands for."""

from datetime import timedelta

import pytest
from django.utils import timezone

from tests.actions.builders import OPERATOR, partner, tenant
from webhooks_app.actions.actor import Actor, operator, require
from webhooks_app.actions.api_keys import authenticate, create_api_key, revoke_api_key
from webhooks_app.exceptions import InvalidRequest, NotFound, PermissionDenied
from webhooks_app.models import ApiKey, AuditEntry

pytestmark = pytest.mark.django_db


def make(**values):
    return create_api_key(OPERATOR, **{"scope": "tenant", "scope_id": "acme", **values})


def test_a_key_stands_for_an_actor():
    made = make(permissions=["webhooks:read", "mail:read"], environment="test")
    assert authenticate(made.key, request_id="req_1") == Actor(
        kind="key",
        id=made.api_key.public_id,
        scope="tenant",
        scope_id="acme",
        environment="test",
        permissions=frozenset({"webhooks:read", "mail:read"}),
        request_id="req_1",
    )


def test_a_platform_key_has_no_scope_id():
    made = make(scope="platform", scope_id=None)
    actor = authenticate(made.key)
    assert (actor.scope, actor.scope_id, actor.permissions) == ("platform", None, frozenset())
    assert not actor.is_operator


def test_the_key_is_stored_nowhere(caplog):
    caplog.set_level("DEBUG")
    made = make(name="shop")
    token = made.key.removeprefix(made.api_key.public_id)
    for text in (str(ApiKey.objects.values()), str(AuditEntry.objects.values()), caplog.text, repr(made)):
        assert token not in text


@pytest.mark.parametrize("text", ["", "key_", "x" * 10_000, "key_\x00", "\ud800", "Bearer abc", "évt"])
def test_what_is_no_key_is_nobody(text):
    assert authenticate(text) is None


def test_every_character_of_the_key_counts():
    key = make().key
    assert authenticate(key) is not None
    for place in (0, 10, 30, len(key) - 1):
        other = "A" if key[place] != "A" else "B"
        assert authenticate(key[:place] + other + key[place + 1 :]) is None
    assert authenticate(key + "A") is None
    assert authenticate(key + "\n") is None


def test_expired_and_revoked_keys_are_nobody():
    expired = make(expires_at=timezone.now() + timedelta(hours=1))
    assert authenticate(expired.key) is not None
    ApiKey.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert authenticate(expired.key) is None
    revoked = make()
    revoke_api_key(OPERATOR, revoked.api_key.public_id)
    assert authenticate(revoked.key) is None


def test_revoking_twice_keeps_the_first_moment_and_is_audited_once():
    public_id = make().api_key.public_id
    first = revoke_api_key(OPERATOR, public_id)
    assert revoke_api_key(OPERATOR, public_id).revoked_at == first.revoked_at is not None
    assert list(AuditEntry.objects.order_by("id").values_list("action", "target_id")) == [
        ("api_key.created", public_id),
        ("api_key.revoked", public_id),
    ]


def test_the_use_is_noted_at_most_once_a_minute():
    made = make()
    authenticate(made.key)
    first = ApiKey.objects.get().last_used_at
    authenticate(made.key)
    assert ApiKey.objects.get().last_used_at == first is not None
    ApiKey.objects.update(last_used_at=timezone.now() - timedelta(minutes=2))
    authenticate(made.key)
    assert ApiKey.objects.get().last_used_at > first


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({"scope": "galaxy"}, "scope"),
        ({"scope": "platform"}, "scope_id"),
        ({"scope_id": None}, "scope_id"),
        ({"scope_id": ""}, "scope_id"),
        ({"scope_id": "x" * 129}, "scope_id"),
        ({"permissions": "webhooks:read"}, "permissions"),
        ({"permissions": ["everything"]}, "permissions"),
        ({"permissions": [7]}, "permissions"),
        ({"environment": "stage"}, "environment"),
        ({"name": "x" * 101}, "name"),
        ({"expires_at": timezone.now().replace(tzinfo=None)}, "expires_at"),
    ],
)
def test_refused_values(values, path):
    with pytest.raises(InvalidRequest) as caught:
        make(**values)
    assert [each for each, _ in caught.value.errors] == [path]


@pytest.mark.parametrize(
    "actor", [tenant(), partner(), Actor("key", "key_1", "platform", permissions=OPERATOR.permissions)]
)
def test_keys_neither_make_nor_revoke_keys(actor):
    public_id = make().api_key.public_id
    with pytest.raises(PermissionDenied):
        create_api_key(actor, scope="tenant", scope_id="acme")
    with pytest.raises(PermissionDenied):
        revoke_api_key(actor, public_id)


@pytest.mark.parametrize("public_id", ["key_unknown", "", "key_\x00", "key_" + "0" * 26])
def test_unknown_keys_cannot_be_revoked(public_id):
    with pytest.raises(NotFound) as caught:
        revoke_api_key(OPERATOR, public_id)
    assert caught.value.code == "api_key_not_found"


def test_managing_includes_reading_and_not_the_other_way():
    manager = tenant(permissions=frozenset({"webhooks:manage"}))
    require(manager, "webhooks:read")
    reader = tenant(permissions=frozenset({"webhooks:read"}))
    with pytest.raises(PermissionDenied):
        require(reader, "webhooks:manage")
    with pytest.raises(PermissionDenied):
        require(manager, "events:write")


def test_the_operator_may_do_everything():
    for permission in ("events:write", "webhooks:read", "webhooks:manage"):
        require(operator("staff", "1"), permission)
