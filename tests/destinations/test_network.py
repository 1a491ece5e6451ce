"""Network options: relaxations need DEBUG or TESTING; the early check of a URL answers in plain words."""

import re
from pathlib import Path
from typing import Any

import pytest

import webhooks_app
from webhooks_app.core.ssrf import Target
from webhooks_app.destinations.network import check_endpoint_url, net_options, normal_form
from webhooks_app.exceptions import InvalidRequest
from webhooks_app.net import resolver

PAGE = Path(webhooks_app.__file__).parent.parent / "docs" / "howto" / "integrate.md"


@pytest.fixture
def app(settings: Any):
    """Change settings of the app."""

    def change(**values: Any) -> None:
        settings.WEBHOOKS = {**settings.WEBHOOKS, **values}

    settings.DEBUG = False
    settings.ALLOWED_HOSTS = []
    change(ALLOW_NETWORKS=["127.0.0.0/8"], STATIC_HOSTS={"*.bench": ["127.0.0.1"]})
    return change


RELAXED = {"REQUIRE_HTTPS": False, "EXTRA_PORTS": [8443]}


def test_testing_admits_plain_http_loopback_and_static_hosts(app):
    app(**RELAXED)
    options = net_options()
    assert options.rules.schemes == ("https", "http")
    assert options.rules.ports == (443, 80, 8443)
    assert options.rules.deny_networks == ()
    assert options.static_hosts == (("*.bench", ("127.0.0.1",)),)
    assert check_endpoint_url("http://a.bench:8443/x").host == "a.bench"


def test_a_copied_development_setting_opens_nothing_in_production(app):
    app(**RELAXED, TESTING=False)
    options = net_options()
    assert options.rules.schemes == ("https",)
    assert options.rules.ports == (443, 8443)
    assert options.static_hosts == ()
    assert {"127.0.0.0/8", "::1/128"} <= set(options.rules.deny_networks)
    with pytest.raises(InvalidRequest):
        check_endpoint_url("http://a.bench:8443/x")


def test_the_development_settings_of_the_documentation_admit_a_local_receiver(app, settings):
    [block] = re.findall(r"```python\n(if DEBUG:\n.*?)```", PAGE.read_text(), re.DOTALL)
    settings.DEBUG, written = True, {"DEBUG": True, "WEBHOOKS": {}}
    app(ALLOW_NETWORKS=[], STATIC_HOSTS={}, TESTING=False)
    with pytest.raises(InvalidRequest):
        check_endpoint_url("http://hooks.example.com:9000/in")
    exec(block, written)
    app(**written["WEBHOOKS"])
    assert check_endpoint_url("http://hooks.example.com:9000/in").port == 9000
    settings.DEBUG = False
    with pytest.raises(InvalidRequest):
        check_endpoint_url("http://hooks.example.com:9000/in")


def test_debug_relaxes_as_well(app, settings):
    app(**RELAXED, TESTING=False)
    settings.DEBUG = True
    assert net_options().rules.schemes == ("https", "http")


def test_what_the_operator_sets_gets_there(app):
    app(
        DENY_NETWORKS=["198.51.100.0/24"],
        NAT64_PREFIXES=["64:ff9b::/96"],
        CA_BUNDLE="/etc/ca.pem",
        SENDER_THREADS=7,
        DENY_HOSTS=[".own.com"],
    )
    options = net_options()
    assert options.rules.allow_networks == ("127.0.0.0/8",)
    assert options.rules.deny_networks == ("198.51.100.0/24",)
    assert options.rules.nat64_prefixes == ("64:ff9b::/96",)
    assert options.rules.deny_hosts == (".own.com",)
    assert (options.ca_bundle, options.per_host) == ("/etc/ca.pem", 7)


def test_the_hosts_own_names_are_refused_unless_named_otherwise(app, settings):
    settings.ALLOWED_HOSTS = ["*", "shop.customer.com", ".own.com"]
    assert net_options().rules.deny_hosts == ("shop.customer.com", ".own.com")
    for host in ("shop.customer.com", "api.own.com", "own.com"):
        with pytest.raises(InvalidRequest, match="DENY_HOSTS"):
            check_endpoint_url(f"https://{host}/")
    app(DENY_HOSTS=[])
    assert net_options().rules.deny_hosts == ()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (None, "must be text"),
        ("ftp://a.bench/", "the URL must start with https:// and a host"),
        ("http://a.bench/", "https:// and a host; the operator's setting REQUIRE_HTTPS decides"),
        ("https://user@a.bench/", "the URL must not have user information"),
        ("https://a.bench:22/", "port 22 is not allowed; the operator's setting EXTRA_PORTS decides"),
        ("https://10.0.0.1/", "a name, not an IP address; the operator's setting STATIC_HOSTS decides"),
        ("https://localhost/", "a local or reserved name; the operator's setting STATIC_HOSTS decides"),
        ("https://own.customer.com/", "one of our own; the operator's setting DENY_HOSTS decides"),
        ("https://a.bench/" + "x" * 2048, "the URL is longer than 2048 characters"),
    ],
)
def test_a_refusal_names_the_setting_that_decides(app, url, said):
    app(DENY_HOSTS=["own.customer.com"])
    with pytest.raises(InvalidRequest) as caught:
        check_endpoint_url(url)
    ((path, message),) = caught.value.errors
    assert path == "url"
    assert message.endswith(said)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("10.1.2.3", "(private); the operator's setting ALLOW_NETWORKS decides"),
        ("fc00::1", "; the operator's setting ALLOW_NETWORKS decides"),
        ("169.254.169.254", "the name resolves to a refused address (cloud metadata)"),
        ("198.51.100.1", "the name resolves to a refused address (denied by the operator)"),
    ],
)
def test_a_refused_address_names_the_setting_only_if_that_could_admit_it(app, address, said):
    app(STATIC_HOSTS={"a.bench": [address]}, DENY_NETWORKS=["198.51.100.0/24"])
    with pytest.raises(InvalidRequest) as caught:
        check_endpoint_url("https://a.bench/")
    assert str(caught.value).endswith(said)


def test_an_inner_address_is_refused_without_being_told(app):
    app(STATIC_HOSTS={"a.bench": ["10.1.2.3"]})
    with pytest.raises(InvalidRequest, match="ALLOW_NETWORKS") as caught:
        check_endpoint_url("https://a.bench/")
    assert "10.1.2.3" not in str(caught.value)


@pytest.mark.parametrize(
    ("detail", "said"),
    [("not_found", "does not resolve"), ("dns_timeout", "in time"), ("temporary", "moment")],
)
def test_a_name_that_does_not_resolve_is_refused(app, monkeypatch, detail, said):
    def fail(host, timeout):
        raise resolver.ResolutionError(detail)

    monkeypatch.setattr(resolver, "_look_up", fail)
    with pytest.raises(InvalidRequest, match=said):
        check_endpoint_url("https://hooks.customer.com/")


def test_the_target_is_returned(app):
    assert check_endpoint_url("https://A.Bench/x?y=1") == Target("https", "a.bench", 443, "/x?y=1")


def test_the_normal_form(app):
    assert normal_form("HTTPS://A.bench:443") == normal_form("https://a.bench/") == "https://a.bench/"
    assert normal_form("https://10.0.0.1/") is None
