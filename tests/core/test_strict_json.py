"""JSON without traps: Django's forms, and an error that names the path of what cannot travel."""

import copy
import json
import pickle
import re
import sys
from collections import OrderedDict, UserDict, namedtuple
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.contrib.auth.models import User
from django.core.files.base import ContentFile
from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import FileField, TextChoices
from django.db.models.fields.files import FieldFile
from django.utils.datastructures import MultiValueDict
from django.utils.functional import Promise
from django.utils.safestring import mark_safe
from django.utils.translation import gettext_lazy
from hypothesis import given
from hypothesis import strategies as st

from webhooks_app.core.strict_json import MAX_DEPTH, PayloadError, RepeatedMember, encode, members

ZONES = st.none() | st.just(UTC) | st.timedeltas(timedelta(hours=-23), timedelta(hours=23)).map(timezone)
Point = namedtuple("Point", "x y")
NAIVE = datetime(2026, 10, 9)


class Colour(TextChoices):
    RED = "red"


def refused(value: object, **options: Any) -> PayloadError:
    with pytest.raises(PayloadError) as raised:
        encode(value, **options)
    return raised.value


def type_name(value: object) -> str:
    return type(value).__name__


def nested(levels: int, kind: type = list) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value] if kind is list else {"k": value}
    return value


@given(
    st.decimals(allow_nan=False, allow_infinity=False)
    | st.uuids()
    | st.datetimes(timezones=ZONES.filter(bool))
    | st.dates()
    | st.times()
    | st.timedeltas()
)
def test_values_have_the_form_of_djangos_encoder(value: object) -> None:
    assert encode([value]) == json.dumps([value], cls=DjangoJSONEncoder).encode()


@pytest.mark.parametrize("value", [timedelta.min, timedelta.max, datetime.max.replace(tzinfo=UTC), time.min])
def test_extremes_have_the_form_of_djangos_encoder(value: object) -> None:
    assert encode(value) == json.dumps(value, cls=DjangoJSONEncoder).encode()


@pytest.mark.parametrize(
    ("value", "body"),
    [
        (OrderedDict(b=1, a=2), b'{"b":1,"a":2}'),
        (Point(1, 2), b"[1,2]"),
        (Colour.RED, b'"red"'),
        (mark_safe("<b>"), b'"<b>"'),
        (MultiValueDict({"a": ["1", "2"]}), b'{"a":"2"}'),
        ({1: "a", None: "b", False: "c"}, b'{"1":"a","null":"b","false":"c"}'),
        ({"a": {}, "b": [], "c": ()}, b'{"a":{},"b":[],"c":[]}'),
        ("\U0001f600", b'"\xf0\x9f\x98\x80"'),
        (2**64 + 1, b"18446744073709551617"),
        (Decimal("1E+3"), b'"1E+3"'),
        ({"a": "\\u0000", "b": "\\\\u0000"}, b'{"a":"\\\\u0000","b":"\\\\\\\\u0000"}'),
    ],
)
def test_what_is_written(value: object, body: bytes) -> None:
    assert encode(value) == body


@pytest.mark.parametrize(
    ("value", "path"),
    [
        pytest.param({"a": "x\0"}, "/a", id="B049 value"),
        pytest.param({"a": {"b\0": 1}}, "/a/b\\u0000", id="B049 key"),
        pytest.param({"a": "\\u0000", "b": "\0"}, "/b", id="B049 after an innocent backslash"),
        pytest.param({"lines": [{}, {"name": "\ud83d"}]}, "/lines/1/name", id="B051 value"),
        pytest.param({"\ud83d": 1}, "/\\ud83d", id="B051 key"),
        pytest.param([float("nan")], "/0", id="B053 nan"),
        pytest.param({"x": float("-inf")}, "/x", id="B053 infinity"),
        pytest.param(
            {"order": {"lines": [{}, {"price": Decimal("NaN")}]}}, "/order/lines/1/price", id="B053"
        ),
        pytest.param({"x": Decimal("sNaN")}, "/x", id="B053 signalling"),
        pytest.param({"x": Decimal("-Infinity")}, "/x", id="B053 decimal infinity"),
        pytest.param({"n": 10**5000}, "/n", id="B055"),
        pytest.param({"a": {10**5000: 1}}, "/a/int", id="B055 key"),
        pytest.param({"at": NAIVE}, "/at", id="B056 naive datetime"),
        pytest.param({"at": time(1, tzinfo=UTC)}, "/at", id="B056 aware time"),
        pytest.param({"tags": {"a", "b"}}, "/tags", id="B056 set"),
        pytest.param([b"bytes"], "/0", id="B056 bytes"),
        pytest.param({"user": User(username="x")}, "/user", id="B056 model instance"),
        pytest.param({"f": FieldFile(None, FileField(), "a.txt")}, "/f", id="B056 FieldFile"),
        pytest.param({"f": ContentFile(b"x")}, "/f", id="B056 file"),
        pytest.param({"label": gettext_lazy("yes")}, "/label", id="B056 lazy text without a hook"),
        pytest.param({"q": (n for n in range(3))}, "/q", id="B056 generator"),
        pytest.param({"m": UserDict(a=1)}, "/m", id="mapping that is no dict"),
        pytest.param({"t": str}, "/t", id="class"),
        pytest.param({"a": {1.5: 1}}, "/a/float", id="float key"),
        pytest.param({"a": {(1, 2): 1}}, "/a/tuple", id="tuple key"),
        pytest.param({"a": {UUID(int=1): 1}}, "/a/UUID", id="uuid key"),
        pytest.param({"a": {"1": 0, 1: 0}}, "/a/1", id="keys equal once written"),
        pytest.param({"true": 0, True: 0}, "/true", id="boolean key equal to a text"),
        pytest.param({"a/b": {"c~d": {1}}}, "/a~1b/c~0d", id="RFC 6901 escapes"),
        pytest.param({1}, "", id="the value itself"),
    ],
)
def test_what_cannot_travel_is_named(value: object, path: str) -> None:
    error = refused(value)
    assert (error.path, error.code) == (path, "invalid_payload")
    assert error.message
    assert error.__cause__ is error.__context__ is None
    str(error).encode()


def test_no_message_holds_the_value() -> None:
    for value in ("hunter2\0", "hunter2\ud83d", {"hunter2"}, b"hunter2", Decimal("NaN7062")):
        assert "hunter2" not in str(refused([value]))
        assert "7062" not in str(refused([value]))


def test_the_first_fault_in_document_order_is_named() -> None:
    assert refused({"a": [1, {"b": "\0"}], "c": {1}, "d": float("nan")}).path == "/a/1/b"


def test_a_long_key_is_cut_in_the_path() -> None:
    assert len(refused({"k" * 100_000: {1}}).path) < 100


@pytest.mark.parametrize("kind", [list, dict])
def test_depth_has_one_limit(kind: type) -> None:
    assert json.loads(encode(nested(MAX_DEPTH, kind))) == nested(MAX_DEPTH, kind)
    assert "100 levels" in refused(nested(MAX_DEPTH + 1, kind)).message
    assert encode(nested(MAX_DEPTH + 1, kind), outer=1)
    assert "100 levels" in refused(nested(MAX_DEPTH + 2, kind), outer=1).message


@pytest.mark.parametrize("levels", [5_000, 100_000])
@pytest.mark.parametrize("kind", [list, dict])
def test_b060_absurd_depth_is_a_payload_error(levels: int, kind: type) -> None:
    assert "100 levels" in refused({"x": nested(levels, kind)}).message


def test_depth_counts_branches_not_containers() -> None:
    wide = [[[]] for _ in range(1000)]
    assert json.loads(encode(wide)) == wide
    assert refused([*wide, nested(MAX_DEPTH)]).path.startswith("/1000/0/0")


def test_cycles_are_refused_and_shared_parts_are_not() -> None:
    loop: dict[str, Any] = {"a": [1]}
    loop["a"].append(loop)
    assert (refused(loop).path, refused(loop).message) == ("/a/1", "contains itself")
    shared = {"x": "\\u0000"}
    assert encode([shared, shared]) == encode([copy.copy(shared), copy.copy(shared)])


def test_the_hook_writes_what_is_unknown() -> None:
    def lazy(value: object) -> str:
        if isinstance(value, Promise):
            return str(value)
        raise TypeError

    assert encode({"label": gettext_lazy("yes")}, default=lazy) == b'{"label":"yes"}'
    assert refused({"tags": {1}}, default=lazy).path == "/tags"


@pytest.mark.parametrize(
    "given_back", ["a\0", "\ud83d", float("nan"), 10**5000, [1], {"a": 1}, b"", Decimal(1)], ids=type_name
)
def test_what_the_hook_gives_is_held_to_the_same_rules(given_back: Any) -> None:
    assert refused({"x": {1}}, default=lambda value: given_back).path == "/x"


@pytest.mark.parametrize("error", [TypeError("hunter2"), ValueError("hunter2")])
def test_a_hook_that_fails_refuses_the_value(error: Exception) -> None:
    def fail(value: object) -> str:
        raise error

    refusal = refused({"x": {1}}, default=fail)
    assert refusal.path == "/x"
    assert "hunter2" not in str(refusal)


def test_a_fault_that_is_gone_when_looked_for_is_still_refused() -> None:
    answers: list[Any] = [float("nan"), "fine"]
    assert refused({"x": {1}}, default=lambda value: answers.pop(0)).path == ""


def test_an_interpreter_without_a_digit_limit_writes_the_number() -> None:
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        assert len(encode(10**5000)) == 5001
    finally:
        sys.set_int_max_str_digits(limit)


def test_an_error_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(PayloadError("/a", "too large", code="payload_too_large")))
    assert (error.path, error.message, error.code) == ("/a", "too large", "payload_too_large")
    assert str(error) == "/a: too large"


ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None))
    | st.binary(max_size=3)
    | st.decimals()
    | st.datetimes(timezones=ZONES)
    | st.builds(date, st.just(2026), st.integers(1, 12), st.just(1))
    | st.builds(uuid4)
    | st.sampled_from(list(Enum("Plain", "A B"))),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(max_size=3) | st.integers(-1, 3) | st.none() | st.floats(), inner, max_size=4
        )
    ),
    max_leaves=15,
)


@given(ANY)
def test_everything_is_either_strict_json_or_a_payload_error(value: object) -> None:
    try:
        body = encode(value)
    except PayloadError as error:
        str(error).encode()
        return
    read = json.loads(body.decode(), parse_constant=pytest.fail, object_pairs_hook=_unique)
    assert json.dumps(read, separators=(",", ":"), ensure_ascii=False).encode() == body
    assert not re.search(rb"(?<!\\)(\\\\)*\\u0000", body)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    assert len(set(keys)) == len(keys)
    return dict(pairs)


def test_members_of_one_name_are_refused_wherever_they_are():
    assert json.loads('{"a": {"b": 1}, "c": [{}]}', object_pairs_hook=members) == {"a": {"b": 1}, "c": [{}]}
    for text, name in (('{"a": 1, "b": 2, "a": 3}', "a"), ('{"x": [{"y": 1, "y": 1}]}', "y")):
        with pytest.raises(RepeatedMember) as caught:
            json.loads(text, object_pairs_hook=members)
        assert caught.value.name == name
