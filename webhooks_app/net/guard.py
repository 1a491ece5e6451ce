"""From a URL to addresses that may be dialled, or a typed refusal.

The check that counts happens at connect time, once for each new connection, and only an address that
passed it is dialled; the check at registration is early feedback (R13).
"""

import socket
from ipaddress import ip_address

from ..core.ssrf import Refused, Target, check_addresses, check_name, is_admitted, parse_url
from .options import NetOptions
from .resolver import ResolutionError, resolve, static_addresses

__all__ = ["Refused", "ResolutionError", "check_registration", "target_of", "verified_addresses"]


def target_of(url: str, options: NetOptions) -> Target:
    """Check grammar, port and name; a name in `static_hosts` skips the name rules. Raises Refused."""
    target = parse_url(url, options.rules)
    if static_addresses(target.host, options.static_hosts) is None:
        check_name(target.host, options.rules)
    return target


def verified_addresses(host: str, options: NetOptions, *, timeout: float) -> list[str]:
    """Look a name up once, and return the addresses that may be dialled.

    `timeout` in seconds; the options' `dns_timeout` applies as well. Raises ResolutionError, or Refused
    when any of the answers is bad.
    """
    answers = resolve(host, timeout=min(timeout, options.dns_timeout), static_hosts=options.static_hosts)
    addresses = check_addresses(answers, options.rules)
    for address in addresses:
        if is_own(address) and not is_admitted(address, options.rules):
            told = "the name resolves to one of our own addresses"
            raise Refused("R12", told, setting="ALLOW_NETWORKS")
    return addresses


def is_own(address: str) -> bool:
    """True for an address of this machine: only for those the kernel chooses the same source address.

    Connecting a datagram socket sends no packet.
    """
    family = socket.AF_INET if ip_address(address).version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, 9))
            return ip_address(probe.getsockname()[0]) == ip_address(address)
        except OSError:
            return False


def check_registration(url: str, options: NetOptions) -> Target:
    """Early feedback when an endpoint is created or changed: grammar, name, then its present addresses.

    Raises Refused, or ResolutionError when the name does not resolve within `dns_timeout`.
    """
    target = target_of(url, options)
    verified_addresses(target.host, options, timeout=options.dns_timeout)
    return target
