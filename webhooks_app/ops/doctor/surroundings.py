"""Doctor: settings, master keys, broker, DNS and the address guard."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

from django.core.checks import ERROR, run_checks

from ...conf import current
from ...core.sealing import SealingError
from ...core.ssrf import Refused, check_addresses, check_url
from ...destinations.network import net_options
from ...destinations.sealing import open_header, open_secret
from ...models import Endpoint, EndpointSecret
from ...net.guard import ResolutionError, target_of
from ...net.resolver import resolve, static_addresses
from ...pipeline import queue
from .finding import Finding, failed, ok, warning

SAMPLE = 200
BROKER_SECONDS = 2.0
DNS_SECONDS = 2.0
# Kept for examples (RFC 2606, section 3), so it is always there.
KNOWN_NAME = "example.com"


def check_settings() -> Iterator[Finding]:
    """Repeat the system checks of the app."""
    found = run_checks(tags=["webhooks"])
    for each in found:
        kind = failed if each.level >= ERROR else warning
        yield kind("settings", f"{each.msg} ({each.id})", each.hint or "")
    if not found:
        yield ok("settings", "the system checks find nothing")


def check_master_keys() -> Iterator[Finding]:
    """Open the newest sealed secrets and header values."""
    broken, tried = [], 0
    alias = current().DATABASE
    secrets = EndpointSecret.objects.using(alias).select_related("endpoint").order_by("-pk")[:SAMPLE]
    for secret in secrets:
        tried += 1
        public_id = secret.endpoint.public_id
        if not _opens(open_secret, public_id, secret.version, secret.sealed):
            broken.append(public_id)
    endpoints = Endpoint.objects.using(alias).exclude(headers=[]).order_by("-pk")[:SAMPLE]
    for endpoint in endpoints:
        sealed = [header for header in endpoint.headers if "sealed" in header]
        tried += len(sealed)
        if not all(_opens(open_header, endpoint.public_id, h["name"], h["sealed"]) for h in sealed):
            broken.append(endpoint.public_id)
    if broken:
        message = f"{len(broken)} of {tried} sealed values do not open, such as that of {broken[0]}"
        yield failed("master keys", message, "Put the key that sealed them back at the end of MASTER_KEYS.")
    else:
        yield ok("master keys", f"all of {tried} sealed values tried open")


def _opens(opener: Callable[..., str], *sealed: Any) -> bool:
    try:
        opener(*sealed)
    except SealingError:
        return False
    return True


def check_broker() -> Iterator[Finding]:
    """Reach the broker, without ever waiting for one that does not answer."""
    if current().QUEUE != "celery":
        yield ok("broker", f'not used: QUEUE is "{current().QUEUE}"')
        return
    faults: list[Exception] = []
    answered = threading.Event()
    threading.Thread(target=_ping, args=(faults, answered), name="webhooks-doctor", daemon=True).start()
    fix = "Start it, or correct CELERY_BROKER_URL. Nothing is lost meanwhile; webhooks wait."
    if not answered.wait(BROKER_SECONDS + 0.5):
        yield failed("broker", f"gives no answer within {BROKER_SECONDS:g} s", fix)
    elif faults and isinstance(faults[0], ImportError):
        lacking = faults[0].name
        yield failed("broker", f"its transport needs the package {lacking}", f"Run: pip install {lacking}")
    elif faults:
        yield failed("broker", f"cannot be reached ({type(faults[0]).__name__})", fix)
    else:
        yield ok("broker", "reachable")


def _ping(faults: list[Exception], answered: threading.Event) -> None:
    try:
        queue.ping(BROKER_SECONDS)
    except Exception as error:  # every transport has errors of its own; their texts may hold passwords
        faults.append(error)
    answered.set()


def check_dns() -> Iterator[Finding]:
    """Look up the host of the newest endpoint, or a name that is always there."""
    host = _newest_host() or KNOWN_NAME
    try:
        addresses = resolve(host, timeout=DNS_SECONDS)
    except ResolutionError as error:
        fix = "Look at /etc/resolv.conf and the network of this machine; webhooks need public DNS."
        yield warning("DNS", f"{host} cannot be looked up ({error.detail})", fix)
    else:
        yield ok("DNS", f"{host} has {len(addresses)} addresses")


def _newest_host() -> str | None:
    options = net_options()
    endpoints = Endpoint.objects.using(current().DATABASE).filter(deleted_at__isnull=True)
    for url in endpoints.order_by("-pk").values_list("url", flat=True)[:20]:
        try:
            host = target_of(url, options).host
        except Refused:
            continue
        if static_addresses(host, options.static_hosts) is None:
            return host
    return None


def check_guard() -> Iterator[Finding]:
    """Ask the guard for what it must refuse: this machine, and the cloud's metadata service."""
    rules = net_options().rules
    fix = "Take the network out of ALLOW_NETWORKS."
    if _admits(lambda: check_url("https://127.0.0.1/", rules)):
        yield failed("guard", "a URL with an IP address is admitted", "Report this as a security problem.")
    if _admits(lambda: check_addresses(["169.254.169.254"], rules)):
        yield failed("guard", "the metadata address 169.254.169.254 is admitted", fix)
    if not _admits(lambda: check_addresses(["127.0.0.1"], rules)):
        yield ok("guard", "127.0.0.1 is refused")
    elif current().relaxed:
        yield warning("guard", "127.0.0.1 is admitted, as DEBUG or TESTING allow", f"For production: {fix}")
    else:
        yield failed("guard", "127.0.0.1 is admitted", fix)


def _admits(check: Callable[[], object]) -> bool:
    try:
        check()
    except Refused:
        return False
    return True
