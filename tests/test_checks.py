"""System checks: each id is raised by its mistake, silent without it, and explained in the reference."""

import re
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from django.core.checks import CheckMessage
from django.test import override_settings

from webhooks_app import checks, conf

KEY = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
PAGE = Path("docs/reference/checks.md")
SQLITE = {"ENGINE": "django.db.backends.sqlite3", "NAME": "/nowhere/db.sqlite3"}
GOOD_OPTIONS = {"transaction_mode": "IMMEDIATE", "init_command": "PRAGMA journal_mode=WAL;"}


def run(webhooks: dict[str, Any], **settings: Any) -> list[CheckMessage]:
    """Return the messages for a WEBHOOKS dict that is right but for the given values."""
    values = {"DEBUG": False} | settings
    with override_settings(WEBHOOKS={"MASTER_KEYS": [KEY]} | webhooks, **values):
        return [*checks.check_settings(), *checks.check_deployment()]


def ids(webhooks: dict[str, Any], **settings: Any) -> list[str]:
    """Return the short ids of those messages, in order."""
    return [str(message.id).removeprefix("webhooks_app.") for message in run(webhooks, **settings)]


class Tenancy:
    """Lacks `retention_days`."""

    def partner_of(self) -> None: ...

    def is_suspended(self) -> None: ...


NOT_CALLABLE = 5


def test_a_right_configuration_is_silent() -> None:
    assert ids({}) == []


def test_the_default_policy_may_be_one_of_your_own() -> None:
    assert ids({"POLICIES": {"mine": {"base": "strict"}}, "DEFAULT_POLICY": "mine"}) == []
    [message] = run({"POLICIES": {"mine": {"base": "strict"}}, "DEFAULT_POLICY": "theirs"})
    assert "mine" in str(message.hint)


CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("E001", {"MASTER_KEY": KEY}, {}),
    ("E001", {"MASTER_KEYS": ["short"]}, {}),
    ("E001", {"MAX_ENDPOINTS": 0}, {}),
    ("E001", {"TESTING": "false"}, {}),
    ("E001", {"ALLOW_NETWORKS": ["10.0.0.1/8"]}, {}),
    ("E002", {"MASTER_KEYS": []}, {}),
    ("W001", {"MASTER_KEYS": []}, {"DEBUG": True}),
    ("E003", {"DATABASE": "elsewhere"}, {}),
    ("E003", {"OUTBOX_DATABASES": ["default", "elsewhere"]}, {}),
    ("E005", {"REQUIRE_HTTPS": False}, {}),
    ("E006", {"STATIC_HOSTS": {"a.bench": ["127.0.0.1"]}}, {}),
    ("E007", {"ALLOW_NETWORKS": ["169.254.0.0/16"]}, {}),
    ("E007", {"ALLOW_NETWORKS": ["169.254.169.254/32"]}, {"DEBUG": True}),
    ("E007", {"ALLOW_NETWORKS": ["fd00:ec2::254"]}, {}),
    ("E008", {"ALLOW_NETWORKS": ["127.0.0.0/8"]}, {}),
    ("E008", {"ALLOW_NETWORKS": ["::1"]}, {}),
    ("E008", {"ALLOW_NETWORKS": ["0.0.0.0/0"]}, {}),
    ("E001", {"POLICIES": {"mine": {"base": "strictest"}}}, {}),
    ("E009", {"DEFAULT_POLICY": "strictest"}, {}),
    ("E010", {"SENDER_THREADS": 300}, {}),
    ("E011", {"CA_BUNDLE": "/nowhere/ca.pem"}, {}),
    ("E011", {"CA_BUNDLE": "/"}, {}),
    ("E012", {"TENANCY": "nowhere.Tenancy"}, {}),
    ("E012", {"TENANCY": "tests.test_checks.Tenancy"}, {}),
    ("E012", {"ACTOR_RESOLVER": "tests.test_checks.NOT_CALLABLE"}, {}),
    ("E013", {}, {"USE_TZ": False}),
    ("E014", {"TESTING": True}, {}),
]


@pytest.mark.parametrize(("short_id", "webhooks", "settings"), CASES)
def test_a_mistake_raises_its_id_alone(
    short_id: str, webhooks: dict[str, Any], settings: dict[str, Any]
) -> None:
    assert ids(webhooks, **settings) == [short_id]


@pytest.mark.parametrize(
    ("webhooks", "settings"),
    [
        ({"REQUIRE_HTTPS": False, "STATIC_HOSTS": {"a.bench": ["127.0.0.1"]}}, {"DEBUG": True}),
        ({"ALLOW_NETWORKS": ["127.0.0.0/8"]}, {"DEBUG": True}),
        ({"ALLOW_NETWORKS": ["10.0.0.0/8", "fd00::/8"]}, {}),
        ({"CA_BUNDLE": __file__}, {}),
        ({"ACTOR_RESOLVER": "tests.test_checks.ids"}, {}),
    ],
)
def test_what_is_allowed_is_silent(webhooks: dict[str, Any], settings: dict[str, Any]) -> None:
    assert ids(webhooks, **settings) == []


@pytest.mark.parametrize(
    ("celery", "expected"),
    [
        ({}, ["W004"]),
        ({"beat_schedule": {"other": {"task": "other", "schedule": 5.0}}}, ["W004"]),
        ({"beat_schedule": {"any name": {"task": "webhooks_app.tick", "schedule": 5.0}}}, []),
        ({"beat_scheduler": "django_celery_beat.schedulers:DatabaseScheduler"}, []),
    ],
)
def test_the_schedule_of_the_hosts_app_needs_the_tick(
    monkeypatch: pytest.MonkeyPatch, celery: dict[str, Any], expected: list[str]
) -> None:
    app = Celery("host", set_as_current=False)
    app.conf.update(celery)
    monkeypatch.setattr("celery.current_app", app)
    assert ids({}) == expected
    assert ids({"QUEUE": "poll"}) == []


def test_every_fault_is_reported_at_once() -> None:
    found = ids({"MASTER_KEYS": [], "NONSENSE": 1, "MAX_ENDPOINTS": "many", "DEFAULT_POLICY": "?"})
    assert sorted(found) == ["E001", "E001", "E002", "E009"]


def test_an_unsupported_database_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(checks.connections["second"]), "vendor", "mysql")
    assert ids({"OUTBOX_DATABASES": ["second"]}).count("E004") == 2


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ["W002", "W003"]),
        ({"OPTIONS": GOOD_OPTIONS}, []),
        (
            {"OPTIONS": {"transaction_mode": "DEFERRED", "init_command": "PRAGMA journal_mode = wal"}},
            ["W002"],
        ),
        ({"OPTIONS": {"transaction_mode": "immediate"}}, ["W003"]),
        ({"NAME": ":memory:", "OPTIONS": {"transaction_mode": "EXCLUSIVE"}}, []),
    ],
)
def test_sqlite_needs_immediate_transactions_and_a_log(changes: dict[str, Any], expected: list[str]) -> None:
    found = checks._sqlite("x", SQLITE | changes)
    assert [str(each.id).removeprefix("webhooks_app.") for each in found] == expected


def test_messages_never_show_a_key() -> None:
    secret = "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldC1zZWNyZXQ="
    [message] = run({"MASTER_KEYS": [KEY, secret]})
    assert message.id == "webhooks_app.E001"
    assert "c2VjcmV0" not in f"{message.msg} {message.hint}"


def test_every_message_has_a_hint_with_its_anchor() -> None:
    for short_id, webhooks, settings in CASES:
        [message] = run(webhooks, **settings)
        assert message.hint.endswith(f"See {PAGE}#{short_id.lower()}.")
        assert len(message.hint) > len(f"See {PAGE}#{short_id.lower()}.") + 10


def test_the_reference_explains_exactly_the_ids_of_the_code() -> None:
    in_code = set(re.findall(r'"([EW]\d{3})"', Path(checks.__file__).read_text()))
    in_page = re.findall(r"^## ([EW]\d{3})$", PAGE.read_text(), re.MULTILINE)
    assert sorted(in_code) == sorted(in_page)


def test_every_check_id_has_a_case_here() -> None:
    in_code = set(re.findall(r'"([EW]\d{3})"', Path(checks.__file__).read_text()))
    assert in_code == {case[0] for case in CASES} | {"E004", "W002", "W003", "W004"}


def test_settings_are_read_anew_after_an_override() -> None:
    before = conf.load()
    with override_settings(WEBHOOKS={"MASTER_KEYS": [KEY], "MAX_ENDPOINTS": 7}):
        assert conf.current().MAX_ENDPOINTS == 7
    assert conf.load() == before
