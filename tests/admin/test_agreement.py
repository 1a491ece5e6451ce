"""The admin tells of an endpoint's health and status what the API tells, whatever state it is in."""

import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.utils import display_for_value
from django.contrib.auth.base_user import AbstractBaseUser
from django.test import Client, RequestFactory
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from tests.admin import rows
from tests.admin.pages import list_url, page_url
from webhooks_app.models import Delivery, Endpoint, EndpointState

pytestmark = pytest.mark.django_db

NOW = timezone.now()
BEFORE, SOON = NOW - timedelta(hours=5), NOW + timedelta(hours=5)
FAILING = {
    "consecutive_failures": 31,
    "first_failure_at": BEFORE,
    "last_failure_at": NOW,
    "failing_from": BEFORE,
    "last_error": "timeout",
}
BROKEN = {**FAILING, "breaker_at": BEFORE, "breaker_error": "timeout", "breaker_successes": 1}
STATES: dict[str, dict[str, Any]] = {
    "new": {},
    "well": {"last_success_at": NOW, "latency_ms": 1480, "window": 100, "delivered": 1204, "retried": 3},
    "a window above its own limit": {"window": 300},
    "failing": FAILING,
    "failing, and it will be disabled": {**FAILING, "consecutive_failures": 3_000, "warnings": 1},
    "redirecting": {**FAILING, "health_warning": "redirect"},
    "open": {**BROKEN, "breaker": "open", "probe_at": SOON},
    "half-open": {**BROKEN, "breaker": "half_open", "probe_at": None},
    "closed again": {**BROKEN, "breaker": "closed", "probe_at": BEFORE, "consecutive_failures": 0},
    "disabled by hand": {"enabled": False, "disabled_reason": "manual", "disabled_at": BEFORE},
    "disabled, none knows when": {"enabled": False, "disabled_reason": "failing", "disabled_at": None},
    "paused": {"paused_at": BEFORE},
    "disabled and paused": {"enabled": False, "disabled_reason": "gone", "paused_at": BEFORE},
    "silence asked for": {"hold_until": SOON},
    "a silence that is over": {"hold_until": BEFORE},
    "owned": {"owner": "node-1", "owner_until": SOON},
    "owned until a while ago": {"owner": "node-1", "owner_until": BEFORE},
    "owned by nobody": {"owner": "", "owner_until": SOON},
}


def endpoint(values: dict[str, Any], policy: str) -> Endpoint:
    row = rows.endpoint(policy=policy)
    EndpointState.objects.filter(pk=row.pk).update(**values)
    return row


def listed(client: Client) -> dict[str, str]:
    """Return the texts of the one row of the list, by column."""
    page = client.get(list_url("endpoint")).content.decode()
    cells = re.findall(r'<t[dh] class="field-(\w+)[^"]*">(.*?)</t[dh]>', page, re.DOTALL)
    return {name: _text(cell) for name, cell in cells}


def shown(user: AbstractBaseUser, row: Endpoint) -> dict[str, str]:
    """Return the read-only texts of the endpoint's page, by field, without the page around them."""
    request = RequestFactory().get(page_url("endpoint", row.pk))
    request.user = user
    form = admin.site.get_model_admin(Endpoint).change_view(request, str(row.pk)).context_data["adminform"]
    fields = [field for fieldset in form for line in fieldset for field in line]
    return {each.field["name"]: _text(each.contents()) for each in fields if hasattr(each, "contents")}


def _text(markup: str) -> str:
    return unescape(re.sub(r"<[^>]*>", " ", markup)).strip()


def _moment(text: str | None) -> str:
    return display_for_value(text and parse_datetime(text), "-")


def _minute(text: str | None) -> str:
    return "-" if text is None else parse_datetime(text).strftime("%Y-%m-%d %H:%M")  # type: ignore[union-attr]


def _breaker(told: dict[str, Any], glue: str) -> str:
    if told["state"] == "closed":
        return "closed"
    parts = [f"{told['state'].replace('_', '-')}: {told['reason']}", f"since {_minute(told['since'])}"]
    if told["next_probe_at"]:
        parts.append(f"next probe {_minute(told['next_probe_at'])}")
    return glue.join(parts)


def _situation(health: dict[str, Any]) -> list[str]:
    disabled = [] if health["enabled"] else [f"disabled ({health['disabled_reason']})"]
    return disabled + ["paused"] * health["paused"] or ["enabled"]


def _warned(health: dict[str, Any]) -> str:
    times = [f"{health['warnings']}× failing"] if health["warnings"] else []
    return ", ".join(times + [health["health_warning"]] * bool(health["health_warning"])) or "-"


def _counts(status: dict[str, Any]) -> str:
    return " / ".join(f"{status[name]:,}" for name in ("delivered", "retried", "failed", "dead_lettered"))


def check_list(cells: dict[str, str], health: dict[str, Any], status: dict[str, Any]) -> None:
    assert [part.split(" 2")[0] for part in cells["situation"].split(", ")] == _situation(health)
    told = re.sub(r"\s{2,}", " | ", cells["breaker"])
    assert re.sub(r"(:\d\d):\d\d$", r"\1", told) == _breaker(health["breaker"], " | ")
    assert cells["warned"] == _warned(health)
    assert cells["consecutive_failures"] == str(health["consecutive_failures"])
    assert cells["counts"] == _counts(status)
    assert cells["holder"] == (status["owner"] or "-")


def check_page(fields: dict[str, str], health: dict[str, Any], status: dict[str, Any]) -> None:
    assert [part.split(" 2")[0] for part in fields["situation"].split(", ")] == _situation(health)
    told = re.sub(r"(, \d+ good in a row)$", "", fields["breaker_whole"])
    assert re.sub(r"(:\d\d):\d\d$", r"\1", told) == _breaker(health["breaker"], ", ")
    if health["breaker"]["state"] != "closed":
        assert fields["breaker_whole"].endswith(f"{health['breaker']['successes']} good in a row")
    assert fields["warned"] == _warned(health)
    assert fields["consecutive_failures"] == str(health["consecutive_failures"])
    assert fields["window"] == str(health["window"])
    for name, theirs in MOMENTS.items():
        assert fields[name] == _moment(health[theirs]), name
    progress = health["disable_progress"]
    assert fields["disable_progress"] == (
        "its policy never disables" if progress is None else f"{progress:.0%}"
    )
    now = health["latency_ms"]
    assert fields["latency"] == ("-" if now is None else f"now {now:,} ms")
    nobody = "several or unknown" if status["delivering"] else "nobody just now"
    assert fields["node"] == (status["owner"] or nobody)
    assert fields["counts"] == _counts(status)
    assert fields["lag"].split(",")[0] == str(status["lag"]["deliveries"])
    last = status["last_error"]
    assert fields["last_error"] == ("-" if last is None else f"{last['code']}, {_minute(last['at'])}")


MOMENTS = {
    "first_failure": "failing_since",
    "last_failure": "last_failure_at",
    "last_success": "last_success_at",
    "held_until": "hold_until",
}


@pytest.mark.parametrize("claim", [None, BEFORE, SOON], ids=["idle", "lapsed", "sending"])
@pytest.mark.parametrize("policy", ["strict", pytest.param("exponential", marks=pytest.mark.once)])
@pytest.mark.parametrize("name", STATES)
def test_list_page_and_api_agree(
    boss: Client, admin_user: AbstractBaseUser, name: str, policy: str, claim: Any
) -> None:
    row = endpoint(STATES[name], policy)
    if claim is not None:
        job = rows.delivery(row, due_at=BEFORE)
        Delivery.objects.filter(pk=job.pk).update(
            lease_token="0199aaaa-0000-7000-8000-000000000000", lease_until=claim
        )
    root = f"/webhooks/v1/webhooks/{row.public_id}"
    health, status = (boss.get(f"{root}/{what}").json() for what in ("health", "status"))
    check_list(listed(boss), health, status)
    check_page(shown(admin_user, row), health, status)
