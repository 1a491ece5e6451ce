"""The address guard: the whole corpus, and properties that hold for every spelling."""

import json
import pickle
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from urllib3.util import parse_url as urllib3_parse

from webhooks_app.core import ssrf_addresses, ssrf_rules
from webhooks_app.core.ssrf import (
    MAX_DIALLED,
    Refused,
    Rules,
    Target,
    check_addresses,
    check_name,
    check_url,
    is_admitted,
    parse_url,
)
from webhooks_app.core.ssrf_ranges import BLOCKED_V4, BLOCKED_V6, GLOBAL_V6, METADATA, RESERVED_NAMES

CORPUS = json.loads((Path(__file__).parents[1] / "vectors" / "ssrf_cases.json").read_text())
CASES = CORPUS["cases"]
DEFAULTS = Rules()
PUBLIC = "93.184.216.34"
URL = "https://hooks.customer.com/in"
# Two rules are broken at once and the other one is found first.
ALSO_BROKEN = {"port-023": "R5", "name-050": "R5"}


def rules_of(case):
    return Rules(**{name: tuple(value) for name, value in case.get("settings", {}).items()})


def decide(case, answers):
    rules = rules_of(case)
    check_url(case["url"], rules)
    return check_addresses(answers, rules)


def verdict(case, answers):
    try:
        decide(case, answers)
    except Refused:
        return "refuse"
    return "allow"


def look_ups(case):
    answers = case.get("resolves_to_sequence") or [case["resolves_to"]]
    return answers[:1] if case.get("within_one_send") else answers


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_verdict(case):
    verdicts = [verdict(case, answers) for answers in look_ups(case)]
    assert verdicts == case.get("phases", [case["verdict"]])


@pytest.mark.parametrize(
    "case",
    [c for c in CASES if c["verdict"] == "refuse" and c["cat"] not in {"mixed", "rebind"}],
    ids=lambda case: case["id"],
)
def test_rule_of_the_refusal(case):
    with pytest.raises(Refused) as caught:
        decide(case, case["resolves_to"])
    assert caught.value.rule == ALSO_BROKEN.get(case["id"], case["rule"])


@pytest.mark.parametrize("case", [c for c in CASES if "connects_to" in c], ids=lambda case: case["id"])
def test_only_these_are_dialled(case):
    assert decide(case, look_ups(case)[-1]) == case["connects_to"]


def test_defaults_are_those_of_the_corpus():
    assert {name: list(getattr(DEFAULTS, name)) for name in CORPUS["defaults"]} == CORPUS["defaults"]


def test_few_of_many_addresses_are_dialled_and_families_take_turns():
    v4 = [f"8.8.{n}.8" for n in range(40)]
    v6 = [f"2606:2800::{n + 1:x}" for n in range(40)]
    assert check_addresses(v4 + v6, DEFAULTS) == ["8.8.0.8", "2606:2800::1", "8.8.1.8", "2606:2800::2"]
    assert len(check_addresses(v4, DEFAULTS)) == MAX_DIALLED


def test_addresses_are_canonical_and_single():
    given_ = ["2606:2800:0:0::0001", "2606:2800::1", "::FFFF:93.184.216.34", PUBLIC]
    assert check_addresses(given_, DEFAULTS) == ["2606:2800::1", PUBLIC]


@pytest.mark.parametrize("text", ["", "127.1", "0x7f.1", "2130706433", "hooks.customer.com", "1.2.3.4 "])
def test_what_is_no_address_is_refused(text):
    with pytest.raises(Refused):
        check_addresses([text], DEFAULTS)


@pytest.mark.parametrize(
    ("url", "rule", "code"),
    [
        ("ftp://hooks.customer.com/", "R1", "invalid_url"),
        ("https://bücher.de/", "R2", "invalid_url"),
        ("https://a..b/", "R5", "invalid_url"),
        ("https://exa_mple.com/", "R5", "invalid_url"),
        (f"https://{'a' * 64}.com/", "R5", "invalid_url"),
        ("https://169.254.169.254/", "R5", "ssrf_blocked"),
        ("https://[::1]/", "R5", "ssrf_blocked"),
        ("https://0x7f.1/", "R5", "ssrf_blocked"),
        ("https://customer.127./", "R5", "ssrf_blocked"),
        ("https://localhost/", "R6", "ssrf_blocked"),
    ],
)
def test_error_code_of_a_refusal(url, rule, code):
    with pytest.raises(Refused) as caught:
        check_url(url, DEFAULTS)
    assert (caught.value.rule, caught.value.code) == (rule, code)


def test_international_names_are_told_to_use_punycode():
    with pytest.raises(Refused, match="punycode"):
        check_url("https://faß.example.com/", DEFAULTS)
    assert check_url("https://xn--fa-hia.de/", DEFAULTS).host == "xn--fa-hia.de"


def test_a_refusal_survives_pickling():
    error = pickle.loads(pickle.dumps(Refused("R6", "no")))
    assert (error.rule, error.message, error.code, str(error)) == ("R6", "no", "ssrf_blocked", "R6: no")


def test_target_is_rebuilt_from_parts():
    target = check_url("HTTPS://Hooks.Customer.COM:443?a[]=%2f", DEFAULTS)
    assert target == Target("https", "hooks.customer.com", 443, "/?a[]=%2f")
    assert target.url == "https://hooks.customer.com/?a[]=%2f"
    assert check_url("https://a.de:8443/x", Rules(ports=(8443,))).url == "https://a.de:8443/x"


def test_plain_http_only_where_the_operator_says_so():
    with pytest.raises(Refused, match="R1"):
        check_url("http://hooks.customer.com/", DEFAULTS)
    rules = Rules(schemes=("https", "http"), ports=(443, 80))
    assert check_url("http://hooks.customer.com/", rules).port == 80


@pytest.mark.parametrize("entry", ["api.our.com", "API.our.com.", ".our.com"])
def test_own_hosts(entry):
    rules = Rules(deny_hosts=("other.com", entry))
    with pytest.raises(Refused, match="R12"):
        check_url("https://Api.Our.com/", rules)
    check_url("https://notour.com/", rules)


def test_a_dotted_own_host_covers_itself_and_a_star_nothing():
    rules = Rules(deny_hosts=(".our.com", "*"))
    for host in ("our.com", "a.b.our.com"):
        with pytest.raises(Refused, match="R12"):
            check_url(f"https://{host}/", rules)
    check_url("https://our.com.de/", rules)


def test_grammar_alone_lets_reserved_names_pass():
    assert parse_url("https://receiver/", DEFAULTS).host == "receiver"
    with pytest.raises(Refused, match="R6"):
        check_name("receiver", DEFAULTS)
    with pytest.raises(Refused, match="R5"):
        parse_url("https://127.0.0.1/", DEFAULTS)


class TestOperatorNetworks:
    @pytest.mark.parametrize("text", ["10.0.0.1/8", "nonsense", "10.0.0.0/33"])
    @pytest.mark.parametrize("field", ["allow_networks", "deny_networks", "nat64_prefixes"])
    def test_a_bad_network_is_an_error_at_once(self, field, text):
        with pytest.raises(ValueError, match=text.partition("/")[0]):
            Rules(**{field: (text,)})

    def test_parsed_once(self):
        assert ssrf_rules.networks_of(Rules(ports=(1,))) is ssrf_rules.networks_of(Rules(ports=(1,)))

    @pytest.mark.parametrize("address", [text for text, _ in METADATA])
    def test_metadata_is_never_admitted(self, address):
        with pytest.raises(Refused):
            check_addresses([address], Rules(allow_networks=("0.0.0.0/0", "::/0")))

    @pytest.mark.parametrize(
        "address",
        [
            "::ffff:169.254.169.254",
            "::169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1:a9fe:a9:fe00::",
            "2002:a9fe:a9fe::1",
            "2001:0:1::5601:5601",
            "fe80::5efe:169.254.169.254",
        ],
    )
    def test_metadata_is_never_admitted_through_a_translator(self, address):
        with pytest.raises(Refused):
            check_addresses([address], Rules(allow_networks=("0.0.0.0/0", "::/0")))

    def test_everything_else_may_be_admitted(self):
        rules = Rules(allow_networks=("127.0.0.0/8", "::1/128", "fd00::/8"))
        for address in ("127.0.0.1", "::1", "fd00::1"):
            assert check_addresses([address], rules) == [address]
            assert is_admitted(address, rules)
        assert not is_admitted(PUBLIC, rules)

    def test_networks_written_as_mapped_addresses_mean_ipv4(self):
        with pytest.raises(Refused):
            check_addresses([PUBLIC], Rules(deny_networks=("::ffff:93.184.216.0/120",)))
        assert check_addresses(["10.0.0.1"], Rules(allow_networks=("::ffff:10.0.0.0/104",))) == ["10.0.0.1"]

    def test_nat64(self):
        rules = Rules(nat64_prefixes=("64:ff9b::/96",), deny_networks=("8.8.4.0/24",))
        assert check_addresses(["64:ff9b::808:808"], rules) == ["64:ff9b::808:808"]
        for bad in ("64:ff9b::a00:1", "64:ff9b::808:404", "64:ff9b:1::808:808"):
            with pytest.raises(Refused, match="R10"):
                check_addresses([bad], rules)

    def test_nat64_address_itself_may_be_denied(self):
        rules = Rules(nat64_prefixes=("64:ff9b::/96",), deny_networks=("64:ff9b::/96",))
        with pytest.raises(Refused):
            check_addresses(["64:ff9b::808:808"], rules)

    def test_nat64_of_another_length_admits_nothing(self):
        with pytest.raises(Refused):
            check_addresses(["64:ff9b:1::808:808"], Rules(nat64_prefixes=("64:ff9b:1::/48",)))


# Written out again, so that a row lost from the table is noticed.
MUST_BE_BLOCKED = (
    "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 "
    "192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 "
    "192.31.196.0/24 192.52.193.0/24 192.175.48.0/24 224.0.0.0/4 240.0.0.0/4 168.63.129.16/32 "
    "::/96 ::ffff:0:0:0/96 64:ff9b::/96 64:ff9b:1::/48 100::/64 100:0:0:1::/64 2001::/23 "
    "2001:db8::/32 2002::/16 2620:4f:8000::/48 3ffe::/16 3fff::/20 4000::/3 5f00::/16 8000::/1 "
    "fc00::/7 fe80::/10 fec0::/10 ff00::/8 "
)


def within(network):
    first, last = int(network.network_address), int(network.broadcast_address)
    return st.one_of(st.sampled_from([first, last]), st.integers(first, last))


blocked = st.sampled_from(MUST_BE_BLOCKED.split()).map(ip_network).flatmap(
    lambda net: within(net).map(lambda value: (IPv4Address if net.version == 4 else IPv6Address)(value))
)  # fmt: skip


def spellings(address):
    """Every text and every IPv6 form that reaches the same place."""
    if address.version == 6:
        return [address.compressed, address.exploded, address.exploded.upper(), f"{address}%1"]
    value = int(address)
    forms = {
        "mapped": 0xFFFF << 32 | value,
        "compatible": value,
        "translated": 0xFFFF << 48 | value,
        "nat64": 0x64FF9B << 96 | value,
        "nat64-local": 0x64FF9B0001 << 80 | value,
        "6to4": 0x2002 << 112 | value << 80 | 1,
        "teredo": 0x20010000 << 96 | value ^ 0xFFFFFFFF,
        "isatap": 0x20010470 << 96 | 0x5EFE << 32 | value,
    }
    texts = [str(address), f"::ffff:{address}", f"::FFFF:{address}", f"::{address}"]
    return texts + [IPv6Address(form).exploded for form in forms.values()]


@given(blocked)
def test_no_blocked_address_passes_in_any_spelling(address):
    for text in spellings(address):
        with pytest.raises(Refused):
            check_addresses([PUBLIC, text], DEFAULTS)


@given(st.ip_addresses(v=6))
def test_ipv6_outside_global_unicast_never_passes(address):
    if address.ipv4_mapped is None and address not in ip_network(GLOBAL_V6):
        with pytest.raises(Refused, match="R10"):
            check_addresses([str(address)], DEFAULTS)


def removed(rows, row):
    return ssrf_addresses._table(r for r in rows if r is not row)


@pytest.mark.parametrize(
    ("table", "rows", "row"),
    [("_V4", BLOCKED_V4, row) for row in BLOCKED_V4] + [("_V6", BLOCKED_V6, row) for row in BLOCKED_V6],
    ids=lambda value: value[0] if isinstance(value, tuple) and isinstance(value[0], str) else None,
)
def test_every_range_is_needed(monkeypatch, table, rows, row):
    network = ip_network(row[0])
    for address in (network[1], network[-2]):
        with pytest.raises(Refused):
            check_addresses([str(address)], DEFAULTS)
    monkeypatch.setattr(ssrf_addresses, table, removed(rows, row))
    assert check_addresses([str(network[-2])], DEFAULTS) == [str(network[-2])]


@pytest.mark.parametrize("name", sorted(RESERVED_NAMES))
def test_every_reserved_name_is_refused(name):
    for host in (f"x.{name}", name.upper(), f"a.b.{name}"):
        with pytest.raises(Refused, match="R6"):
            check_url(f"https://{host}/", DEFAULTS)


url_texts = st.one_of(
    st.text(max_size=60),
    st.text(alphabet="htps:/.@#?%[]\\ \t\n0127axлー。", max_size=60),
    st.text(alphabet="htps:/.@#?%[]\\ \t\n0127ax-_", max_size=40).map(lambda tail: "https://a.b" + tail),
)


@given(url_texts)
def test_what_is_accepted_means_the_same_to_every_parser(url):
    try:
        target = check_url(url, DEFAULTS)
    except Refused:
        return
    other = urllib3_parse(target.url)
    assert urlsplit(target.url).hostname == other.host == target.host
    assert urlsplit(url).hostname == target.host
    assert check_url(target.url, DEFAULTS) == target
    with pytest.raises(ValueError, match="does not appear"):
        ip_address(target.host)
