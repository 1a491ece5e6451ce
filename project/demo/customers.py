"""The customers of the demo and how their systems behave."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """Somebody who wants to hear about orders. `tenant` None: the shop itself, which hears everything.

    `refusals`: of every message so many requests are refused; `stumbles`: of all requests the first so many.
    `waits` are the seconds between its tries, `policy` what else it asks of the sender.
    """

    name: str
    host: str
    tenant: str | None
    habit: str
    refusals: int = 0
    stumbles: int = 0
    reachable: bool = True
    ordering: str = "none"
    waits: tuple[int, ...] = (1, 2)
    policy: Mapping[str, Any] = field(default_factory=dict)

    @property
    def tries(self) -> int:
        """After how many tries a message is given up."""
        return len(self.waits) + 1


ACME = Consumer(name="Acme", host="hooks.acme-demo.com", tenant="acme", habit="works")
STOCK = Consumer(
    name="Acme stock",
    host="stock.acme-demo.com",
    tenant="acme",
    habit="wants strict order, refuses the first message",
    stumbles=1,
    ordering="fifo",
)
BIRCH = Consumer(
    name="Birch",
    host="hooks.birch-demo.com",
    tenant="birch",
    habit="is broken and refuses every message twice",
    refusals=2,
)
CEDAR = Consumer(
    name="Cedar",
    host="hooks.cedar-demo.com",
    tenant="cedar",
    habit="is switched off: nobody answers",
    reachable=False,
)
DAHLIA = Consumer(
    name="Dahlia",
    host="hooks.dahlia-demo.com",
    tenant="dahlia",
    habit="works, but not for long",
    waits=(2, 2, 2, 2),
    policy={"breaker": {"failures": 3, "open_seconds": 1, "probe_seconds": 1}},
)
OFFICE = Consumer(
    name="Back office",
    host="hooks.shop-demo.com",
    tenant=None,
    habit="works, and hears about every customer",
)

CONSUMERS = (ACME, STOCK, BIRCH, CEDAR, DAHLIA, OFFICE)
HOSTS = tuple(each.host for each in CONSUMERS)
BY_HOST = {each.host: each for each in CONSUMERS}
