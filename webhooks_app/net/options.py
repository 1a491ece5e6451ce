"""What the net package needs to know, as one value; settings are turned into it elsewhere."""

from dataclasses import dataclass, field

from ..core.ssrf import Rules

StaticHosts = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class NetOptions:
    """Limits of one process's outgoing requests. Times in seconds, sizes in bytes.

    rules: what the guard admits.
    static_hosts: (name, addresses) pairs; "*.suffix" covers everything under the suffix. Such names
        skip DNS and the rules about names; the address rules still decide.
    ca_bundle: PEM file or folder of hashed certificates used instead of certifi's bundle.
    pools: hosts whose idle connections are kept; the least recently used one makes room.
    per_host: idle connections kept for one host.
    dns_timeout: longest wait for a look-up, within the attempt's total time.
    body_timeout: longest wait for the body once the status is known; the status is the verdict.
    max_wire: most bytes received in one attempt, status line and headers included.
    conn_max_age: a kept connection older than this is not used again, so that DNS changes are followed.
    """

    rules: Rules = field(default_factory=Rules)
    static_hosts: StaticHosts = ()
    ca_bundle: str | None = None
    pools: int = 100
    per_host: int = 32
    dns_timeout: float = 5.0
    body_timeout: float = 5.0
    max_wire: int = 131_072
    conn_max_age: float = 60.0
