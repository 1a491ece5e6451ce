"""The settings as the network package wants them, and the early check of an endpoint's URL."""

from django.conf import settings as django_settings

from ..conf import Settings, current
from ..core.ssrf import Rules, Target
from ..exceptions import InvalidRequest
from ..net.guard import Refused, ResolutionError, check_registration, target_of
from ..net.options import NetOptions

_LOOPBACK = ("127.0.0.0/8", "::1/128")

_UNRESOLVED = {
    "dns_timeout": "the host name could not be looked up in time; try again",
    "dns_busy": "the host name could not be looked up in time; try again",
    "temporary": "the host name cannot be looked up at the moment; try again",
}


def net_options() -> NetOptions:
    """Return the options of every outgoing request.

    Plain HTTP, loopback and static hosts need DEBUG or TESTING, whatever else the settings say: a copied
    development setting must not open a production system.
    """
    settings = current()
    return NetOptions(
        rules=_rules(settings),
        static_hosts=tuple(sorted(settings.STATIC_HOSTS.items())) if settings.relaxed else (),
        ca_bundle=settings.CA_BUNDLE,
        per_host=settings.SENDER_THREADS,
    )


def check_endpoint_url(url: object) -> Target:
    """Check a URL when an endpoint is created or changed; every delivery checks again when it connects.

    Waits for DNS, so it belongs outside of transactions.

    Raises:
        InvalidRequest: at `url`; the message names the setting that decides, never an address.
    """
    if not isinstance(url, str):
        raise InvalidRequest([("url", "must be text")])
    try:
        return check_registration(url, net_options())
    except Refused as error:
        decides = f"; the operator's setting {error.setting} decides" if error.setting else ""
        message = f"{error.message}{decides}"
    except ResolutionError as error:
        message = _UNRESOLVED.get(error.detail, "the host name does not resolve")
    raise InvalidRequest([("url", message)])


def normal_form(url: str) -> str | None:
    """Return a URL as it is dialled (case of the host, default port); None for one that may not be."""
    try:
        return target_of(url, net_options()).url
    except Refused:
        return None


def _rules(settings: Settings) -> Rules:
    plain_http = settings.relaxed and not settings.REQUIRE_HTTPS
    return Rules(
        schemes=("https", "http") if plain_http else ("https",),
        ports=(443, *((80,) if plain_http else ()), *settings.EXTRA_PORTS),
        allow_networks=settings.ALLOW_NETWORKS,
        deny_networks=settings.DENY_NETWORKS if settings.relaxed else (*settings.DENY_NETWORKS, *_LOOPBACK),
        deny_hosts=_own_hosts() if settings.DENY_HOSTS is None else settings.DENY_HOSTS,
        nat64_prefixes=settings.NAT64_PREFIXES,
    )


def _own_hosts() -> tuple[str, ...]:
    """The host's own names: a webhook to oneself would reach what the network lets only oneself reach."""
    return tuple(name for name in django_settings.ALLOWED_HOSTS if name != "*")
