"""`webhooks_apikey`: the key alone on stdout, the rest on stderr."""

import pytest

from tests.management.calling import run
from webhooks_app.actions.actor import PERMISSIONS
from webhooks_app.actions.api_keys import authenticate
from webhooks_app.models import ApiKey, AuditEntry

pytestmark = pytest.mark.django_db

COMMAND = "webhooks_apikey"


def test_create_prints_the_key_alone():
    ran = run(COMMAND, "create", "--scope", "platform")
    assert ran.out.count("\n") == 1
    actor = authenticate(ran.out.strip())
    assert (actor.scope, actor.environment, actor.permissions) == ("platform", "live", frozenset(PERMISSIONS))
    assert ran.out.strip() not in ran.err
    assert AuditEntry.objects.get().actor_id == COMMAND


def test_create_takes_scope_permissions_environment_name_and_days():
    arguments = "--scope tenant:a:b --permission events:write --permission mail:read --environment test"
    ran = run(COMMAND, "create", *arguments.split(), "--name", "the shop", "--days", "7")
    actor = authenticate(ran.out.strip())
    assert (actor.scope, actor.scope_id, actor.environment) == ("tenant", "a:b", "test")
    assert actor.permissions == {"events:write", "mail:read"}
    row = ApiKey.objects.get()
    assert row.name == "the shop"
    assert (row.expires_at - row.created_at).days in {6, 7}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--scope", "tenant"],
        ["--scope", "platform:x"],
        ["--scope", "galaxy"],
        ["--scope", "platform", "--permission", "all"],
        ["--scope", "platform", "--environment", "stage"],
        ["--scope", "platform", "--days", "0"],
        [],
    ],
)
def test_refused_arguments_print_no_key(arguments):
    ran = run(COMMAND, "create", *arguments)
    assert ran.code == 1
    assert ran.fault
    assert ran.out == ""
    assert not ApiKey.objects.exists()


@pytest.mark.parametrize("scope", ["tenant", "tenant:", "partner:", "platform:x", "galaxy", ""])
def test_a_wrong_scope_is_told_as_it_is_typed(scope):
    assert (
        run(COMMAND, "create", "--scope", scope).fault == "--scope must be platform, partner:ID or tenant:ID"
    )


def test_list_shows_states_and_no_hash():
    for scope in ("platform", "tenant:acme", "partner:umbrella"):
        run(COMMAND, "create", "--scope", scope)
    first = ApiKey.objects.order_by("pk").first()
    run(COMMAND, "revoke", first.public_id)
    lines = run(COMMAND, "list").out.splitlines()
    assert [line.split("\t")[1:3] for line in lines] == [
        ["active", "partner:umbrella"],
        ["active", "tenant:acme"],
        ["revoked", "platform"],
    ]
    assert first.sha256 not in "".join(lines)


def test_revoke():
    key = run(COMMAND, "create", "--scope", "platform").out.strip()
    public_id = ApiKey.objects.get().public_id
    assert run(COMMAND, "revoke", public_id).code == 0
    assert authenticate(key) is None
    assert run(COMMAND, "revoke", "key_unknown").code == 1
