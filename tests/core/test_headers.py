"""Custom headers: what a consumer may add, and what would break or fake a request."""

import http.client
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhooks_app.core.headers import CustomHeader, HeaderError, check_custom_headers

RESERVED = [
    "Host",
    "Content-Type",
    "Content-Length",
    "Content-Encoding",
    "Content-Anything",
    "Transfer-Encoding",
    "Connection",
    "Cookie",
    "User-Agent",
    "Accept-Encoding",
    "Expect",
    "TE",
    "Trailer",
    "Upgrade",
    "Proxy-Authorization",
    "Proxy-Connection",
    "Keep-Alive",
    "webhook-id",
    "webhook-timestamp",
    "webhook-signature",
    "webhook-anything",
    "ce-id",
    "ce-anything",
]
LONG_OR_NO_TEXT = ["x" * 4097, None, 7, True, b"a"]
NAMES = st.text("abcXYZ019!#$%&'*+-.^_`|~", min_size=1, max_size=60).map("X-".__add__)
VALUES = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=100)


def header(name: object = "X-Team", value: object = "blue", **more: object) -> dict[str, object]:
    return {"name": name, "value": value} | more


def refused(*headers: object, given_as: Any = None) -> HeaderError:
    with pytest.raises(HeaderError) as raised:
        check_custom_headers(list(headers) if given_as is None else given_as)
    return raised.value


def test_headers_come_back_as_given() -> None:
    headers = check_custom_headers(
        [
            header("Authorization", "Bearer a b  c", secret=True),
            header("x-team"),
            header("x", "1", secret=False),
        ]
    )
    assert headers == (
        CustomHeader("Authorization", "Bearer a b  c", secret=True),
        CustomHeader("x-team", "blue"),
        CustomHeader("x", "1"),
    )
    assert check_custom_headers([]) == ()


@given(st.dictionaries(NAMES.map(str.lower), VALUES, max_size=20))
def test_what_is_taken_can_be_sent(headers: dict[str, str]) -> None:
    connection = http.client.HTTPConnection("receiver.example")
    connection.putrequest("POST", "/")
    for checked in check_custom_headers([header(name, value) for name, value in headers.items()]):
        connection.putheader(checked.name, checked.value)


@pytest.mark.parametrize("name", RESERVED)
@pytest.mark.parametrize("spell", [str, str.lower, str.upper])
def test_names_of_the_sender_are_reserved(name: str, spell: Any) -> None:
    error = refused(header(), header(spell(name)))
    assert (error.path, error.message) == ("/headers/1/name", f"{spell(name)} is set by the sender")


@pytest.mark.parametrize("name", ["Host-Name", "X-Content-Type", "Tea", "Ceiling", "X-Webhook-Id", "Proxied"])
def test_names_that_only_look_reserved_are_taken(name: str) -> None:
    assert check_custom_headers([header(name)])


@pytest.mark.parametrize(
    "name",
    [
        "",
        "X Y",
        "X:",
        "X\r\nY",
        "X\n",
        " X",
        "é",
        "X(",
        "X/Y",
        'X"',
        "x" * 65,
        "\0",
        None,
        7,
        ["X"],
        "X\ud800",
    ],
)
def test_b073_names_are_tokens(name: object) -> None:
    assert refused(header(name)).path == "/headers/0/name"


@pytest.mark.parametrize(
    "value",
    [
        "a\r\nX-Injected: 1",
        "a\n b",
        "a\r",
        "a\n",
        "a\0",
        "é",
        "",
        " ",
        " a",
        "a ",
        "a\tb",
        "\x7f",
        "\ud800",
        *LONG_OR_NO_TEXT,
    ],
)
def test_b073_values_are_visible_ascii(value: object) -> None:
    assert refused(header(), header("X-B", value)).path == "/headers/1/value"


@pytest.mark.parametrize("value", ["a", "~", "a b", "x" * 4096])
def test_values_at_their_bounds(value: str) -> None:
    assert check_custom_headers([header("x" * 64, value)])[0].value == value


def test_twenty_headers_and_no_more() -> None:
    many = [header(f"X-{n}") for n in range(21)]
    assert len(check_custom_headers(many[:20])) == 20
    assert refused(*many).path == "/headers"


def test_a_name_is_given_once_whatever_its_case() -> None:
    error = refused(header("X-Team"), header("X-Other"), header("x-tEAM"))
    assert (error.path, error.message) == ("/headers/2/name", "is given twice")


def test_a_value_that_is_missing_is_named() -> None:
    error = refused(header(), {"name": "X-B"})
    assert error.path == "/headers/1/value"
    assert error.message == "is required: no secret value is stored for this name"


@pytest.mark.parametrize("headers", [{"X-Team": "blue"}, "X-Team: blue", b"x", None, 7, {1}])
def test_headers_are_a_list(headers: object) -> None:
    with pytest.raises(HeaderError, match="list") as raised:
        check_custom_headers(headers)
    assert raised.value.path == "/headers"


@pytest.mark.parametrize("item", [None, "X: y", ["X", "y"], {}, {"value": "y"}, header(other=1), {1: 2}])
def test_each_header_is_an_object_of_known_fields(item: object) -> None:
    assert refused(header(), item).path == "/headers/1"


@pytest.mark.parametrize("secret", [None, 1, "true"])
def test_secret_is_a_boolean(secret: object) -> None:
    assert refused(header(secret=secret)).path == "/headers/0/secret"


def test_no_message_and_no_repr_holds_a_value() -> None:
    assert "hunter2" not in str(refused(header("X", "hunter2\n")))
    assert "hunter2" not in repr(check_custom_headers([header("X", "hunter2", secret=True)]))


def test_the_path_starts_where_the_caller_says() -> None:
    with pytest.raises(HeaderError) as raised:
        check_custom_headers([header("Host")], path="/webhook/headers")
    assert str(raised.value) == "/webhook/headers/0/name: Host is set by the sender"


@given(st.lists(st.fixed_dictionaries({"name": st.text(), "value": st.text()}), max_size=3))
def test_whatever_is_taken_is_one_safe_line(headers: list[dict[str, str]]) -> None:
    try:
        checked = check_custom_headers(headers)
    except HeaderError:
        return
    for item in checked:
        assert (item.name + item.value).isascii()
        assert (item.name + item.value).isprintable()
