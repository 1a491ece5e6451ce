"""Names, addresses and look-ups: what is dialled is what was checked."""

import socket
import threading
import time

import pytest

from webhooks_app.core.ssrf import Rules
from webhooks_app.net import guard, resolver
from webhooks_app.net.guard import Refused, ResolutionError, check_registration
from webhooks_app.net.options import NetOptions

from .sending import HOST, LOOPBACK, request_to
from .servers import OK, Authority, answers, answers_once, black_holes, hangs

OPTIONS = NetOptions(rules=Rules(allow_networks=LOOPBACK), dns_timeout=0.3)
URL = f"https://{HOST}/in"


class TestDialling:
    def test_one_look_up_for_each_connection(self, serve, transport_to, dns):
        server = serve(answers_once(OK))
        transport = transport_to(server)
        for _ in range(3):
            assert transport.post(request_to(server)).ok
        assert dns.asked == [HOST] * 3

    def test_no_look_up_while_a_connection_is_kept(self, serve, transport_to, dns):
        server = serve(answers(OK))
        transport = transport_to(server)
        for _ in range(3):
            assert transport.post(request_to(server)).ok
        assert (dns.asked, server.connections) == ([HOST], 1)

    def test_rebinding_within_one_send(self, serve, transport_to, dns):
        """A second answer would lead elsewhere: it is never asked for, and nothing listens there."""
        dns.answers[HOST] = [("127.0.0.1",), ("127.0.0.2",)]
        server = serve(answers_once(OK))
        other = serve(answers(OK), host="127.0.0.2", port=server.port)
        result = transport_to(server).post(request_to(server))
        assert (result.target_ip, other.connections, len(dns.asked)) == ("127.0.0.1", 0, 1)

    @pytest.mark.parametrize(
        "later", ["10.0.0.1", "169.254.169.254", "::ffff:10.0.0.1", "64:ff9b::a9fe:a9fe"]
    )
    def test_rebinding_between_sends(self, serve, transport_to, dns, later):
        dns.answers[HOST] = [("127.0.0.1",), (later,)]
        server = serve(answers_once(OK))
        transport = transport_to(server)
        assert transport.post(request_to(server)).ok
        result = transport.post(request_to(server))
        assert (result.error, result.target_ip, server.connections) == ("ssrf_blocked", None, 1)

    def test_rebinding_when_a_stale_connection_is_replaced(self, serve, transport_to, dns):
        def behave(connection):
            connection.read()
            connection.write(OK)
            connection.read()

        dns.answers[HOST] = [("127.0.0.1",), ("10.0.0.1",)]
        server = serve(behave)
        transport = transport_to(server)
        assert transport.post(request_to(server)).ok
        result = transport.post(request_to(server))
        assert (result.error, result.target_ip) == ("ssrf_blocked", None)

    def test_one_bad_answer_refuses_the_name(self, serve, transport_to, dns):
        dns.answers[HOST] = [("127.0.0.1", "10.0.0.1")]
        server = serve(answers(OK))
        result = transport_to(server).post(request_to(server))
        assert (result.error, result.detail, server.connections) == ("ssrf_blocked", "R8", 0)

    def test_a_mapped_answer_is_dialled_as_ipv4(self, serve, transport_to, dns):
        dns.answers[HOST] = [("::ffff:127.0.0.1",)]
        server = serve(answers(OK))
        assert transport_to(server).post(request_to(server)).target_ip == "127.0.0.1"

    def test_ipv6(self, serve, transport_to, dns):
        dns.answers[HOST] = [("::1",)]
        server = serve(answers(OK), host="::1")
        result = transport_to(server).post(request_to(server))
        assert (result.error, result.target_ip) == ("", "::1")
        assert f"Host: {HOST}:{server.port}".encode() in server.requests[0][0]

    def test_a_dead_first_address_is_stepped_over(self, serve, transport_to, dns):
        dns.answers[HOST] = [("127.0.0.2", "127.0.0.1")]
        server = serve(answers(OK))
        assert transport_to(server).post(request_to(server)).target_ip == "127.0.0.1"

    def test_black_holes_share_one_connect_time(self, transport_to, dns):
        addresses = [f"127.0.0.{n}" for n in range(2, 10)]
        dns.answers[HOST] = [tuple(addresses)]
        with black_holes(addresses) as port:
            result = transport_to(port).post(request_to(port, connect_timeout=0.3, total_timeout=5))
        assert (result.error, result.detail) == ("connect", "connect_timeout")
        assert 250 < result.duration_ms < 600

    def test_a_black_hole_leaves_time_for_the_next_address(self, serve, transport_to, dns):
        dns.answers[HOST] = [("127.0.0.2", "127.0.0.1")]
        with black_holes(["127.0.0.2"]) as port:
            server = serve(answers(OK), port=port)
            result = transport_to(port).post(request_to(server, connect_timeout=0.4))
        assert (result.error, result.target_ip) == ("", "127.0.0.1")

    def test_the_total_time_bounds_connecting_too(self, transport_to, dns):
        dns.answers[HOST] = [("127.0.0.2",)]
        with black_holes(["127.0.0.2"]) as port:
            result = transport_to(port).post(request_to(port, connect_timeout=5, total_timeout=0.2))
        assert (result.error, result.duration_ms < 500) == ("connect", True)

    def test_loopback_is_refused_unless_allowed(self, serve, transport_to):
        server = serve(answers(OK))
        rules = Rules(schemes=("http",), ports=(server.port,))
        result = transport_to(server, rules=rules).post(request_to(server))
        assert (result.error, result.detail, server.connections) == ("ssrf_blocked", "R8", 0)

    @pytest.mark.parametrize(
        ("url", "error", "rule"),
        [
            ("http://127.0.0.1/", "ssrf_blocked", "R5"),
            ("http://localhost/", "ssrf_blocked", "R6"),
            ("http://user@hooks.customer.com/", "invalid_url", "R3"),
            ("gopher://hooks.customer.com/", "invalid_url", "R1"),
            ("http://hooks.customer.com:6379/", "invalid_url", "R4"),
            ("http://bücher.de/", "invalid_url", "R2"),
            ("", "invalid_url", "R1"),
        ],
    )
    def test_urls_are_checked_again_at_send(self, serve, transport_to, dns, url, error, rule):
        server = serve(answers(OK))
        result = transport_to(server, 80).post(request_to(server, url=url))
        assert (result.error, result.detail, dns.asked) == (error, rule, [])


class TestOwnAddresses:
    def test_refused(self, monkeypatch, dns):
        monkeypatch.setattr(guard, "is_own", {"93.184.216.34"}.__contains__)
        dns.answers[HOST] = [("8.8.8.8", "93.184.216.34")]
        with pytest.raises(Refused, match="R12"):
            guard.verified_addresses(HOST, OPTIONS, timeout=1)

    def test_unless_allowed(self, monkeypatch):
        monkeypatch.setattr(guard, "is_own", lambda address: True)
        assert guard.verified_addresses(HOST, OPTIONS, timeout=1) == ["127.0.0.1"]

    @pytest.mark.parametrize("address", ["127.0.0.1", "127.5.5.5", "::1"])
    def test_found(self, address):
        assert guard.is_own(address) == (address != "127.5.5.5")


class TestLookUps:
    @pytest.mark.parametrize(
        ("error", "detail"),
        [
            (socket.gaierror(socket.EAI_NONAME, "no"), "not_found"),
            (socket.gaierror(socket.EAI_AGAIN, "later"), "temporary"),
            (socket.gaierror(socket.EAI_FAIL, "broken"), "failed"),
            (UnicodeError("label too long"), "failed"),
        ],
    )
    def test_failures(self, serve, transport_to, monkeypatch, error, detail):
        def fail(host):
            raise error

        monkeypatch.setattr(resolver, "system_addresses", fail)
        server = serve(answers(OK))
        result = transport_to(server).post(request_to(server))
        assert (result.error, result.detail) == ("dns", detail)

    def test_no_answer_then_a_good_one(self, serve, transport_to, dns):
        dns.answers[HOST] = [(), ("127.0.0.1",)]
        server = serve(answers(OK))
        transport = transport_to(server)
        result = transport.post(request_to(server))
        assert (result.error, result.detail) == ("dns", "no_address")
        assert transport.post(request_to(server)).ok

    def test_a_hanging_resolver(self, transport_to, monkeypatch):
        release = threading.Event()
        monkeypatch.setattr(resolver, "system_addresses", lambda host: (release.wait(5) and ()) or ())
        try:
            result = transport_to(80, dns_timeout=0.2).post(request_to(80))
            assert (result.error, result.detail) == ("dns", "dns_timeout")
            assert result.duration_ms < 500
        finally:
            release.set()

    def test_look_ups_are_bounded(self, monkeypatch):
        release = threading.Event()
        slots = threading.BoundedSemaphore(2)
        monkeypatch.setattr(resolver, "_slots", slots)
        monkeypatch.setattr(resolver, "system_addresses", lambda host: (release.wait(5) and ()) or ())
        try:
            for expected in ("dns_timeout", "dns_timeout", "dns_busy"):
                with pytest.raises(ResolutionError) as caught:
                    resolver.resolve(HOST, timeout=0.05)
                assert caught.value.detail == expected
        finally:
            release.set()
        assert slots.acquire(timeout=2)

    def test_a_thread_that_does_not_start_keeps_no_slot(self, monkeypatch):
        monkeypatch.setattr(resolver, "_slots", threading.BoundedSemaphore(1))

        def fail(thread):
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(threading.Thread, "start", fail)
        for _ in range(2):
            with pytest.raises(ResolutionError, match="dns_busy"):
                resolver.resolve(HOST, timeout=0.05)

    def test_slots_are_renewed_after_a_fork(self, monkeypatch):
        taken = threading.BoundedSemaphore(1)
        monkeypatch.setattr(resolver, "_slots", taken)
        resolver._renew_slots()
        assert resolver._slots is not taken


class TestSystemResolver:
    def test_names_are_absolute_and_zones_are_told(self, monkeypatch):
        monkeypatch.undo()
        asked = []

        def getaddrinfo(host, *args):
            asked.append(host)
            kind = (socket.SOCK_STREAM, socket.IPPROTO_TCP, "")
            return [
                (socket.AF_INET, *kind, ("127.0.0.1", 0)),
                (socket.AF_INET6, *kind, ("fe80::1", 0, 0, 3)),
                (socket.AF_INET6, *kind, ("fe80::1%eth0", 0, 0, 2)),
                (socket.AF_INET6, *kind, ("::1", 0, 0, 0)),
            ]

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        assert resolver.system_addresses(HOST) == ("127.0.0.1", "fe80::1%3", "fe80::1%eth0", "::1")
        assert asked == [f"{HOST}."]


class TestStaticHosts:
    HOSTS = (
        ("*.bench", ("127.0.0.1",)),
        ("*.eu.bench", ("127.0.0.2",)),
        ("Exact.bench", ("127.0.0.3",)),
        ("receiver", ("127.0.0.4",)),
        ("bad.bench", ("10.0.0.1",)),
    )

    @pytest.mark.parametrize(
        ("host", "addresses"),
        [
            ("a.bench", ("127.0.0.1",)),
            ("a.b.bench", ("127.0.0.1",)),
            ("a.eu.bench", ("127.0.0.2",)),
            ("exact.bench", ("127.0.0.3",)),
            ("receiver", ("127.0.0.4",)),
            ("bench", None),
            ("notbench", None),
        ],
    )
    def test_matching(self, host, addresses):
        assert resolver.static_addresses(host, self.HOSTS) == addresses

    @pytest.mark.parametrize("name", ["a.bench", "receiver", "x.local"])
    def test_names_skip_dns_and_name_rules(self, serve, transport_to, dns, name):
        server = serve(answers(OK))
        hosts = (*self.HOSTS[:1], ("receiver", ("127.0.0.1",)), ("*.local", ("127.0.0.1",)))
        rules = Rules(("http",), (server.port,), allow_networks=LOOPBACK, deny_hosts=(name,))
        transport = transport_to(server, static_hosts=hosts, rules=rules)
        assert transport.post(request_to(server, url=f"http://{name}:{server.port}/")).ok
        assert dns.asked == []

    def test_address_rules_still_decide(self, serve, transport_to):
        server = serve(answers(OK))
        transport = transport_to(server, static_hosts=self.HOSTS)
        result = transport.post(request_to(server, url=f"http://bad.bench:{server.port}/"))
        assert (result.error, result.detail) == ("ssrf_blocked", "R8")

    def test_without_the_option_the_name_is_refused(self, serve, transport_to):
        server = serve(answers(OK))
        result = transport_to(server).post(request_to(server, url=f"http://receiver:{server.port}/"))
        assert (result.error, result.detail) == ("ssrf_blocked", "R6")


class TestRegistration:
    def test_an_acceptable_url(self):
        assert check_registration(f"HTTPS://{HOST.upper()}/in", OPTIONS).url == URL

    @pytest.mark.parametrize(
        ("url", "rule"),
        [("https://localhost/", "R6"), ("http://hooks.customer.com/", "R1"), ("https://[::1]/", "R5")],
    )
    def test_a_bad_url_is_not_looked_up(self, dns, url, rule):
        with pytest.raises(Refused, match=rule):
            check_registration(url, OPTIONS)
        assert dns.asked == []

    def test_a_bad_address(self, dns):
        dns.answers[HOST] = [("192.168.1.1",)]
        with pytest.raises(Refused, match=r"R8: .*private"):
            check_registration(URL, OPTIONS)

    def test_a_name_without_address(self, dns):
        dns.answers[HOST] = [()]
        with pytest.raises(ResolutionError, match="no_address"):
            check_registration(URL, OPTIONS)

    def test_a_hanging_resolver(self, monkeypatch):
        release = threading.Event()
        monkeypatch.setattr(resolver, "system_addresses", lambda host: (release.wait(5) and ()) or ())
        started = time.monotonic()
        try:
            with pytest.raises(ResolutionError, match="dns_timeout"):
                check_registration(URL, OPTIONS)
        finally:
            release.set()
        assert time.monotonic() - started < 1

    def test_nothing_is_connected(self, serve, authority: Authority):
        server = serve(hangs)
        rules = Rules(ports=(server.port,), allow_networks=LOOPBACK)
        check_registration(f"https://{HOST}:{server.port}/", NetOptions(rules=rules))
        assert server.connections == 0
