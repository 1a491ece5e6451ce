"""Which of a name's addresses may be dialled (R8-R11). The ranges are in `ssrf_ranges`."""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

from .ssrf_ranges import BLOCKED_V4, BLOCKED_V6, GLOBAL_V6, ISATAP, METADATA, Row
from .ssrf_rules import Network, Networks, Refused, Rules, networks_of

MAX_DIALLED = 4
# No ALLOW_NETWORKS admits these.
_METADATA_SAID, _DENIED = "cloud metadata", "denied by the operator"

Address = IPv4Address | IPv6Address
Table = tuple[tuple[int, int, str], ...]


def check_addresses(addresses: Iterable[str], rules: Rules) -> list[str]:
    """Check every address of a name; one bad answer refuses the name (R8-R11).

    Returns the canonical addresses that may be dialled, at most MAX_DIALLED, the two families taking
    turns (RFC 8305 4). Raises Refused, also when there is none.
    """
    networks = networks_of(rules)
    checked = list(dict.fromkeys(_checked(text, networks) for text in addresses))
    if not checked:
        raise Refused("R8", "the name has no address")
    return [str(address) for address in _in_turns(checked)[:MAX_DIALLED]]


def is_admitted(address: str, rules: Rules) -> bool:
    """True when `allow_networks` names the address: it may then even be one of our own."""
    return _within(ip_address(address), networks_of(rules).allow)


def _table(rows: Iterable[Row]) -> Table:
    parsed = ((ip_network(text), why) for text, why in rows)
    return tuple((int(net.network_address), int(net.netmask), why) for net, why in parsed)


_V4 = _table(BLOCKED_V4)
_V6 = _table(BLOCKED_V6)
_GLOBAL_V6 = IPv6Network(GLOBAL_V6)
_METADATA = frozenset(ip_address(text) for text, _ in METADATA)


def _checked(text: str, networks: Networks) -> Address:
    if "%" in text:
        raise Refused("R11", "the name resolves to an address with a zone id")
    try:
        address = ip_address(text)
    except ValueError:
        raise Refused("R8", "the resolver's answer is not an address") from None
    if address.version == 4:
        return _decided(address, networks, "R8")
    mapped = address.ipv4_mapped
    return _decided(mapped, networks, "R9") if mapped else _decided(address, networks, "R10")


def _decided(address: Address, networks: Networks, rule: str) -> Address:
    if why := _why_refused(address, networks):
        setting = "" if why in (_METADATA_SAID, _DENIED) else "ALLOW_NETWORKS"
        raise Refused(rule, f"the name resolves to a refused address ({why})", setting=setting)
    if _within(address, networks.nat64):
        _decided(IPv4Address(int(address) & 0xFFFFFFFF), networks, rule)
    return address


def _why_refused(address: Address, networks: Networks) -> str | None:
    if address in _METADATA:
        return _METADATA_SAID
    if _within(address, networks.deny):
        return _DENIED
    if _within(address, networks.nat64):
        return None
    if _within(address, networks.allow):
        return _hidden_metadata(address)
    return _first(int(address), _V4) if address.version == 4 else _blocked_v6(int(address))


def _blocked_v6(value: int) -> str | None:
    if IPv6Address(value) not in _GLOBAL_V6:
        return "not global unicast"
    return "ISATAP" if (value >> 32) & 0xFFFFFFFF in ISATAP else _first(value, _V6)


def _first(value: int, table: Table) -> str | None:
    return next((why for network, mask, why in table if value & mask == network), None)


def _hidden_metadata(address: Address) -> str | None:
    """An allowed IPv6 network must not lead to a metadata address through a translator or tunnel."""
    hidden = address.version == 6 and any(IPv4Address(v) in _METADATA for v in _embedded(int(address)))
    return _METADATA_SAID if hidden else None


def _embedded(value: int) -> tuple[int, ...]:
    """Every place where IPv6 carries IPv4: low bits, Teredo client (RFC 4380), 6to4, RFC 6052 /48."""
    low = value & 0xFFFFFFFF
    six_to_four = (value >> 80) & 0xFFFFFFFF
    nat64_48 = ((value >> 64) & 0xFFFF) << 16 | (value >> 40) & 0xFFFF
    return low, low ^ 0xFFFFFFFF, six_to_four, nat64_48


def _within(address: Address, networks: tuple[Network, ...]) -> bool:
    return any(address.version == network.version and address in network for network in networks)


def _in_turns(addresses: list[Address]) -> list[Address]:
    rank: dict[int, int] = {}
    order = []
    for index, address in enumerate(addresses):
        rank[address.version] = rank.get(address.version, -1) + 1
        order.append((rank[address.version], index, address))
    return [address for _, _, address in sorted(order, key=lambda row: row[:2])]
