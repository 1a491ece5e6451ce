"""May this URL, with these addresses, be contacted? Pure decisions.

    check_url        grammar and name rules      R1-R7, R12
    check_addresses  what a resolver answered    R8-R11

There is one strict grammar and no repair: whatever RFC 3986 parsers disagree about is refused, and
the URL that is requested is rebuilt from the parts checked here.
"""

import re
from dataclasses import dataclass

from .ssrf_addresses import MAX_DIALLED, check_addresses, is_admitted
from .ssrf_ranges import RESERVED_NAMES
from .ssrf_rules import Refused, Rules

__all__ = [
    "MAX_DIALLED",
    "Refused",
    "Rules",
    "Target",
    "check_addresses",
    "check_name",
    "check_url",
    "is_admitted",
    "parse_url",
]

MAX_URL = 2048
MAX_HOST = 253

_DEFAULT_PORTS = {"http": 80, "https": 443}
_NEVER = re.compile(r"[\x00-\x1f\x7f\\]|[^\x00-\x7f]|\A | \Z")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*)://(?=[^/])")
_END_OF_AUTHORITY = re.compile(r"[/?]")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_PATH = re.compile(
    r"(?:/(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/]|%[0-9A-Fa-f]{2})*)?"
    r"(?:\?(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/?\[\]]|%[0-9A-Fa-f]{2})*)?"
)
_ENCODED_CONTROL = re.compile(r"%(?:[01][0-9A-Fa-f]|7[Ff])")
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_LITERAL = re.compile(r"\[.*|(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)\.?")


@dataclass(frozen=True, slots=True)
class Target:
    """An accepted URL in parts: lower-case scheme and host, path with its query exactly as given."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def url(self) -> str:
        """The URL rebuilt from its parts, without a default port."""
        port = "" if self.port == _DEFAULT_PORTS.get(self.scheme) else f":{self.port}"
        return f"{self.scheme}://{self.host}{port}{self.path}"


def check_url(url: str, rules: Rules) -> Target:
    """Apply rules R1-R7 and R12 to a URL as the customer typed it. Raises Refused."""
    target = parse_url(url, rules)
    check_name(target.host, rules)
    return target


def parse_url(url: str, rules: Rules) -> Target:
    """Apply the grammar and port rules (R1-R5, R7) but not the rules about names. Raises Refused."""
    if len(url) > MAX_URL:
        raise Refused("R7", f"the URL is longer than {MAX_URL} characters")
    if _NEVER.search(url):
        raise Refused(
            "R2",
            "the URL holds a space, control character, backslash or non-ASCII character; "
            "write an international host name in its punycode form (xn--…) and percent-encode the rest",
        )
    scheme, rest = _split_scheme(url, rules)
    if "#" in rest:
        raise Refused("R3", "the URL must not have a fragment")
    authority = _END_OF_AUTHORITY.split(rest, maxsplit=1)[0]
    if "@" in authority:
        raise Refused("R3", "the URL must not have user information")
    host, port = _split_authority(authority.lower(), scheme, rules)
    return Target(scheme, host, port, _checked_path(rest[len(authority) :]))


def _split_scheme(url: str, rules: Rules) -> tuple[str, str]:
    match = _SCHEME.match(url)
    if match is None or match[1].lower() not in rules.schemes:
        told = f"the URL must start with {' or '.join(rules.schemes)}:// and a host"
        raise Refused("R1", told, setting="REQUIRE_HTTPS" if match and match[1].lower() == "http" else "")
    return match[1].lower(), url[match.end() :]


def _split_authority(authority: str, scheme: str, rules: Rules) -> tuple[str, int]:
    host, colon, port = authority.partition(":")
    _check_host(host)
    if not colon:
        return host, _admitted_port(_DEFAULT_PORTS.get(scheme, 0), rules)
    if not _PORT.fullmatch(port):
        raise Refused("R4", "the port must be a number from 1 to 65535")
    return host, _admitted_port(int(port), rules)


def _admitted_port(port: int, rules: Rules) -> int:
    if port not in rules.ports:
        raise Refused("R4", f"port {port} is not allowed", setting="EXTRA_PORTS")
    return port


def _check_host(host: str) -> None:
    if len(host) > MAX_HOST:
        raise Refused("R7", f"the host name is longer than {MAX_HOST} characters")
    if _LITERAL.fullmatch(host):
        told = "the host must be a name, not an IP address"
        raise Refused("R5", told, code="ssrf_blocked", setting="STATIC_HOSTS")
    labels = host.split(".")
    if not all(map(_LABEL.fullmatch, labels)) or not labels[-1][0].isalpha():
        raise Refused("R5", "the host must be a DNS name: labels of letters, digits and inner hyphens")


def _checked_path(path: str) -> str:
    if not _PATH.fullmatch(path):
        raise Refused("R2", "the path or query holds a character that must be percent-encoded")
    if _ENCODED_CONTROL.search(path):
        raise Refused("R2", "the path or query holds an encoded control character")
    return path if path.startswith("/") else "/" + path


def check_name(host: str, rules: Rules) -> None:
    """Apply R6 and R12 to a lower-case host name. Raises Refused."""
    if _denied(host, rules):
        raise Refused("R12", "the host is one of our own", setting="DENY_HOSTS")
    labels = host.split(".")
    if len(labels) < 2 or labels[-1] in RESERVED_NAMES:
        raise Refused("R6", "the host is a local or reserved name", setting="STATIC_HOSTS")


def _denied(host: str, rules: Rules) -> bool:
    for entry in rules.deny_hosts:
        name = entry.lower().rstrip(".")
        if host == name.lstrip(".") or (name.startswith(".") and host.endswith(name)):
            return True
    return False
