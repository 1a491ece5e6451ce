"""What the guard refuses with, and what an operator may tune: `Refused`, `Rules`, parsed `Networks`."""

from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_network

Network = IPv4Network | IPv6Network

_GUARD_RULES = frozenset({"R6", "R8", "R9", "R10", "R11", "R12"})


class Refused(Exception):
    """The guard says no. Not an OSError: HTTP libraries must neither swallow nor wrap it.

    `rule` is the id of the broken rule ("R1" … "R12"), `message` is fit for the endpoint's owner,
    `code` is the attempt's error code: "ssrf_blocked" or "invalid_url"; `setting` is the one that could
    admit the URL ("" for none).
    """

    def __init__(self, rule: str, message: str, *, code: str | None = None, setting: str = "") -> None:
        super().__init__(rule, message)
        self.rule = rule
        self.message = message
        self.setting = setting
        self.code = code or ("ssrf_blocked" if rule in _GUARD_RULES else "invalid_url")

    def __str__(self) -> str:
        return f"{self.rule}: {self.message}"


@dataclass(frozen=True, slots=True)
class Rules:
    """What the operator admits and refuses. Networks are CIDR texts; ValueError for a bad one.

    `deny_hosts` are exact names, or ".example.com" for a name and everything under it. Of
    `nat64_prefixes` only /96 ones count: under any other length the embedded address is ambiguous.
    """

    schemes: tuple[str, ...] = ("https",)
    ports: tuple[int, ...] = (443,)
    allow_networks: tuple[str, ...] = ()
    deny_networks: tuple[str, ...] = ()
    deny_hosts: tuple[str, ...] = ()
    nat64_prefixes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        networks_of(self)


@dataclass(frozen=True, slots=True)
class Networks:
    """The networks of `Rules`, parsed."""

    allow: tuple[Network, ...]
    deny: tuple[Network, ...]
    nat64: tuple[Network, ...]


@lru_cache(maxsize=64)
def networks_of(rules: Rules) -> Networks:
    """Parse the networks of the rules once. Raises ValueError for a text that is no network."""
    nat64 = (ip_network(text) for text in rules.nat64_prefixes)
    return Networks(
        allow=tuple(map(_network, rules.allow_networks)),
        deny=tuple(map(_network, rules.deny_networks)),
        nat64=tuple(net for net in nat64 if net.version == 6 and net.prefixlen == 96),
    )


def _network(text: str) -> Network:
    """Parse a CIDR text; a network of IPv4-mapped addresses becomes the IPv4 network it means."""
    network = ip_network(text)
    mapped = network.network_address.ipv4_mapped if isinstance(network, IPv6Network) else None
    return IPv4Network((mapped, network.prefixlen - 96)) if mapped and network.prefixlen >= 96 else network
