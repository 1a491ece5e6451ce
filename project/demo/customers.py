"""The customers of the demo and how their systems behave."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Consumer:
    """Somebody who wants to hear about orders. `tenant` None: the shop itself, which hears everything."""

    name: str
    host: str
    tenant: str | None
    habit: str
    refusals: int = 0
    reachable: bool = True


ACME = Consumer("Acme", "hooks.acme-demo.com", "acme", "works")
BIRCH = Consumer(
    "Birch", "hooks.birch-demo.com", "birch", "is broken and refuses every message twice", refusals=2
)
CEDAR = Consumer(
    "Cedar", "hooks.cedar-demo.com", "cedar", "was switched off: nobody answers", reachable=False
)
OFFICE = Consumer("Back office", "hooks.shop-demo.com", None, "works, and wants to hear about every customer")

CONSUMERS = (ACME, BIRCH, CEDAR, OFFICE)
HOSTS = tuple(each.host for each in CONSUMERS)
BY_HOST = {each.host: each for each in CONSUMERS}
