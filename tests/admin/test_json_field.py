"""JSON that staff type: a value, or an error at the field, whatever the text."""

from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client

from tests.admin import rows
from tests.admin.pages import fields_of, page_url
from webhooks_app.admin.json_field import JsonField
from webhooks_app.models import Endpoint

pytestmark = pytest.mark.once

ADD = "/admin/webhooks_app/endpoint/add/"
NEW = {"url": "https://new.customer.com/in", "events": "*", "tenant_id": "birch"}
FIELDS = ("policy_overrides", "identity_ids", "headers", "rate_limit")
HOSTILE = {
    "too deep to parse": "[" * 2_000,
    "too deep, and closed": "[" * 2_000 + "]" * 2_000,
    "too deep to write": "[" * 500 + "]" * 500,
    "too many digits": "1" * 5_000,
    "too many digits within": '{"waits": [%s]}' % ("9" * 5_000),
    "half a surrogate pair": '["\\ud800"]',
    "two members of one name": '{"window": 60, "window": 3600}',
    "no number": '{"jitter": NaN}',
    "no double": '{"jitter": 1e400}',
    "no JSON": "{",
}


def form(client: Client, url: str, /, **changes: Any) -> dict[str, Any]:
    return fields_of(client.get(url).content.decode(), **changes)


@pytest.mark.django_db
@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_text_is_more_than_an_error_of_its_field(boss: Client, field: str, text: str) -> None:
    answer = boss.post(ADD, form(boss, ADD, **NEW, **{field: text}))
    assert answer.status_code == 200
    assert list(answer.context["adminform"].form.errors) == [field]
    assert not Endpoint.objects.exists()
    assert fields_of(answer.content.decode())[field] == text


@pytest.mark.django_db
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_nor_is_one_that_changes_or_remembers(boss: Client, text: str) -> None:
    endpoint = rows.endpoint()
    url = page_url("endpoint", endpoint.pk)
    for name in ("policy_overrides", "initial-policy_overrides"):
        answer = boss.post(url, form(boss, url, **{"policy_overrides": "{}", name: text}))
        assert answer.status_code in (200, 302)
    endpoint.refresh_from_db()
    assert endpoint.policy_overrides == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 2_000, "Is nested too deeply."),
        ("[" * 101 + "]" * 101, "nested deeper than 100 levels"),
        ("1" * 5_000, "An integer has too many digits."),
        ('{"a": [{"b": 1, "b": 1}]}', "A member is given twice"),
        ('{"a": NaN}', "a: NaN and Infinity are no JSON numbers"),
        ("{", "line 1, column 2"),
    ],
)
def test_it_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        JsonField().clean(text)


@pytest.mark.parametrize(
    ("text", "value"), [("", None), ("null", None), ("[]", []), ('{"a": [1.5]}', {"a": [1.5]})]
)
def test_what_is_json_is_its_value(text: str, value: Any) -> None:
    assert JsonField(required=False).clean(text) == value
