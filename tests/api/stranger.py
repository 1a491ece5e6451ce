"""How the requests of schemathesis get past the door: hooks, loaded by its own process alone.

It makes ids, keys and values up, and repeats them. Sent so, most requests say nothing of the code behind the
first check: the id is nobody's, the key belongs to another request, no host has that name. What could be
replaced is left as it was now and then, and what breaks the schema always is.
"""

import atexit
import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count, cycle
from pathlib import Path
from typing import Any, Final

import schemathesis
from schemathesis.core.parameters import ParameterLocation

# Written by the test: noun of a path -> ids of rows that are there.
IDS: Final = Path("ids.json")
# Written for it: status -> how many answers had it.
ANSWERS: Final = Path("answers.json")
# One request in so many is left as it was made up.
LEFT: Final = 8
KEY: Final = re.compile("[!-~](?:[ -~]{0,253}[!-~])?")
# Methods that get webhooks without open deliveries, which nothing else is done to.
SPARED: Final = ("PATCH", "DELETE")
NOUN: Final = re.compile(r"/v1/(\w+)/\{id\}")
# What a value of the schema is replaced with where it would be refused for what no schema can say.
POSSIBLE: Final[dict[str, Any]] = {
    "url": "https://hooks.example.com/in",
    "tenant_id": "a",
    "tenantid": "a",
    "datacontenttype": "application/json",
    "policy": "strict",
    "jitter": 0.5,
    "max_wait": 3600.0,
    "window": 86400.0,
    "time_to_live": 86400.0,
    "connect_timeout": 2.0,
    "total_timeout": 5.0,
    "reply_bytes": 1024,
    "failures": 10,
    "span": 3600.0,
    "start_within": 3600.0,
    "start_span": 60.0,
    "open_seconds": 30.0,
    "probe_seconds": 30.0,
    "probes": 2,
    "successes_to_close": 2,
    "per_second": 5.0,
    "burst": 5.0,
}
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_HOURS: Final = {
    "since": -48,
    "until": -1,
    "occurred_at": -24,
    "time": -24,
    "expires_at": 48,
    "expirytime": 48,
}

_numbers = count(1)
_sent: set[str] = set()
_answers: Counter[int] = Counter()
_ids: dict[str, Iterator[str]] = {}


@schemathesis.hook
def before_load_schema(context: Any, raw_schema: dict[str, Any]) -> None:
    """Read the ids; and try the many values of a policy at POST alone: PATCH reads them the same way."""
    _ids.update({noun: cycle(ids) for noun, ids in json.loads(IDS.read_text()).items()})
    del raw_schema["components"]["schemas"]["PatchedWebhookUpdate"]["properties"]["policy_overrides"]


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: dict[str, Any]) -> None:
    """Replace what would end the request before it is looked at."""
    number = next(_numbers)
    _take_new_key(case.headers, number)
    if number % LEFT:
        _name_a_row(case)
        _make_possible(case.query)
        _make_possible(case.body)
        if "If-Match" in case.headers:
            case.headers["If-Match"] = "*"


@schemathesis.hook
def after_call(context: Any, case: Any, response: Any) -> None:
    """Count the answer."""
    if not _answers:
        atexit.register(lambda: ANSWERS.write_text(json.dumps(_answers)))
    _answers[response.status_code] += 1


def _take_new_key(headers: Any, number: int) -> None:
    """Send no right key twice, but each as it is once."""
    key = headers.get("Idempotency-Key", "")
    if key in _sent and KEY.fullmatch(key):
        headers["Idempotency-Key"] = f"call-{number}"
    _sent.add(key)


def _name_a_row(case: Any) -> None:
    path = case.meta.components.get(ParameterLocation.PATH)
    if path is not None and path.mode.is_positive and (noun := NOUN.match(case.operation.path)):
        case.path_parameters["id"] = next(_ids["spare" if case.method in SPARED else noun[1]])


def _make_possible(value: Any) -> None:
    """Replace members, however deep, without turning a wrong one into a right one."""
    if isinstance(value, list):
        for each in value:
            _make_possible(each)
    if isinstance(value, dict):
        _leave_out(value)
        for name, given in value.items():
            value[name] = _possible(name, given)
            _make_possible(given)


def _possible(name: str, given: Any) -> Any:
    if name in _HOURS and isinstance(given, str) and _MOMENT.fullmatch(given):
        return (datetime.now(UTC) + timedelta(hours=_HOURS[name])).isoformat()
    if name in ("webhook_id", "to") and given not in ("same", "new") and _is_short(given):
        return next(_ids["webhooks"])
    if (name, given) == ("environment", "test"):
        return "live"
    good = POSSIBLE.get(name)
    if isinstance(good, str):
        return good if _is_short(given) else given
    fits = type(given) is type(good) or (type(given) is int and isinstance(good, float))
    return good if fits else given


def _leave_out(members: dict[str, Any]) -> None:
    """Drop a made-up cursor, and a partner beside a tenant."""
    for name in ("cursor", "partner_id"):
        if _is_short(members.get(name)):
            del members[name]


def _is_short(value: Any) -> bool:
    """Whether it is a string as the schema wants it everywhere."""
    return isinstance(value, str) and 0 < len(value) <= 64
