"""Names and address ranges a webhook may never reach, as data.

Sources: the IANA special-purpose registries for IPv4 and IPv6 (RFC 6890 and its updates), the IANA
registry of special-use domain names (RFC 6761), and the cloud providers' metadata documentation.
`ipaddress.is_global` is not used: it changes between Python releases and lets 6to4, NAT64,
IPv4-compatible and multicast addresses pass.
"""

Row = tuple[str, str]

# R8: refused inside the IPv4 space.
BLOCKED_V4: tuple[Row, ...] = (
    ("0.0.0.0/8", "this network"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "carrier-grade NAT"),
    ("127.0.0.0/8", "loopback"),
    ("169.254.0.0/16", "link-local"),
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "IETF protocol assignments"),
    ("192.0.2.0/24", "documentation"),
    ("192.31.196.0/24", "AS112"),
    ("192.52.193.0/24", "AMT"),
    ("192.88.99.0/24", "6to4 relay"),
    ("192.168.0.0/16", "private"),
    ("192.175.48.0/24", "AS112"),
    ("198.18.0.0/15", "benchmarking"),
    ("198.51.100.0/24", "documentation"),
    ("203.0.113.0/24", "documentation"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved"),
)

# R10: IPv6 is an allow-list. Only this block is handed out as global unicast (RFC 4291 2.4, IANA).
GLOBAL_V6 = "2000::/3"

# R10: refused inside GLOBAL_V6. 2001::/23 holds Teredo, ORCHID, benchmarking, AMT and AS112.
BLOCKED_V6: tuple[Row, ...] = (
    ("2001::/23", "IETF protocol assignments"),
    ("2001:db8::/32", "documentation"),
    ("2002::/16", "6to4"),
    ("2620:4f:8000::/48", "AS112"),
    ("3ffe::/16", "returned 6bone space"),
    ("3fff::/20", "documentation"),
)

# R10: interface identifiers of ISATAP (RFC 5214 6.1), which carry an IPv4 address in the low 32 bits.
ISATAP = (0x00005EFE, 0x02005EFE)

# Never admitted, not even by an operator's allow_networks: whoever reads these owns the machine.
METADATA: tuple[Row, ...] = (
    ("100.100.100.200", "Alibaba Cloud metadata"),
    ("168.63.129.16", "Azure WireServer"),
    ("169.254.0.23", "Tencent Cloud metadata"),
    ("169.254.169.254", "cloud metadata"),
    ("169.254.170.2", "AWS ECS credentials"),
    ("169.254.170.23", "AWS EKS credentials"),
    ("169.254.42.42", "Scaleway metadata"),
    ("192.0.0.192", "Oracle Cloud metadata"),
    ("fd00:42::42", "Scaleway metadata"),
    ("fd00:c1::a9fe:a9fe", "Oracle Cloud metadata"),
    ("fd00:ec2::23", "AWS EKS credentials"),
    ("fd00:ec2::254", "AWS metadata"),
    ("fd20:ce::254", "Google Cloud metadata"),
    ("fe80::a9fe:a9fe", "OpenStack metadata"),
)

# R6: these names and everything under them (home.arpa falls under arpa).
RESERVED_NAMES = frozenset(
    (
        "alt",
        "arpa",
        "consul",
        "corp",
        "example",
        "home",
        "internal",
        "intranet",
        "invalid",
        "lan",
        "local",
        "localdomain",
        "localhost",
        "onion",
        "private",
        "svc",
        "test",
    )
)
