"""The story: orders come in, one is undone; and how far the messages about them are."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from project.demo.customers import ACME, BIRCH, CEDAR, CONSUMERS, Consumer
from project.demo.receiver import Arrival
from project.demo.screen import Screen
from project.shop import services
from project.shop.models import Customer
from webhooks_app.models import Delivery, EndpointState

UNDONE_ITEM = "a unicorn"
SHELF = ("a lamp", "two chairs", "a desk", "a kettle", "three mugs", "a rug")
Message = tuple[str, int]  # type of event, number of the order


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the messages are; counted in messages per consumer. `open` are those the sender still has."""

    arrived: int
    open: int
    retrying: int
    held: int
    given_up: int
    expected: int
    hopeless: int

    @property
    def done(self) -> bool:
        """Whether nothing is left to wait for."""
        return self.arrived >= self.expected and self.given_up >= self.hopeless and not self.open

    def __str__(self) -> str:
        held = f" · {self.held} held back" if self.held else ""
        return (
            f"  {self.arrived} of {self.expected} messages arrived and checked"
            f" · {self.retrying} waiting for another try{held} · {self.given_up} given up"
        )


@dataclass
class Story:
    """Tells the story on the screen and remembers what every consumer must receive, as it happened."""

    screen: Screen
    expected: dict[str, list[Message]] = field(default_factory=lambda: {each.host: [] for each in CONSUMERS})
    out_of_reach: set[str] = field(
        default_factory=lambda: {each.host for each in CONSUMERS if not each.reachable}
    )

    def tell(self) -> None:
        """Let the customers order and pay; one order is undone after its message was written."""
        self.order(ACME, "a lamp", pay=True)
        self.order(BIRCH, "two chairs")
        self.order(CEDAR, "a desk")
        self._undone_order()
        self.order(ACME, "a kettle", pay=True)
        self.order(BIRCH, "three mugs")

    def order(self, consumer: Consumer, item: str, *, pay: bool = False) -> None:
        """Place an order, and pay it if wanted: two changes, two messages."""
        order = services.place_order(self._customer(consumer), item, Decimal(len(item) * 3))
        messages = [("order.placed", order.pk)]
        if pay:
            services.pay_order(order)
            messages.append(("order.paid", order.pk))
        for each in CONSUMERS:
            if each.tenant in (consumer.tenant, None):
                self.expected[each.host] += messages
        self.screen.say(f"  {consumer.name} orders {item}{' and pays' if pay else ''} (order {order.pk})")

    def progress(self, arrivals: Sequence[Arrival]) -> Progress:
        """Compare what arrived with what should, and ask the sender's own records about the rest."""
        got = {(each.host, message_of(each)) for each in arrivals if each.answer == 200}
        open_rows = Delivery.objects.filter(state="pending")
        wanted = set(self._wanted())
        return Progress(
            arrived=len(got & wanted),
            open=open_rows.count(),
            retrying=open_rows.filter(attempts__gt=0, endpoint__state__breaker="closed").count(),
            held=open_rows.exclude(endpoint__state__breaker="closed").count(),
            given_up=Delivery.objects.filter(state="exhausted").count(),
            expected=len(wanted),
            hopeless=sum(len(self.expected[host]) for host in self.out_of_reach),
        )

    def is_held(self, consumer: Consumer) -> bool:
        """Whether the sender holds back what is for this consumer: its breaker is open."""
        states = EndpointState.objects.filter(endpoint__tenant_id=consumer.tenant)
        return states.exclude(breaker="closed").exists()

    def _wanted(self) -> Iterator[tuple[str, Message]]:
        for host, messages in self.expected.items():
            if host not in self.out_of_reach:
                yield from ((host, message) for message in messages)

    def _undone_order(self) -> None:
        with contextlib.suppress(services.OutOfStock):
            services.place_order(self._customer(ACME), UNDONE_ITEM, Decimal(999), in_stock=False)
        self.screen.say(
            f"  {ACME.name} orders {UNDONE_ITEM}: out of stock, so the order and its message are undone"
        )

    def _customer(self, consumer: Consumer) -> Customer:
        return Customer.objects.get_or_create(id=consumer.tenant, defaults={"name": consumer.name})[0]


def message_of(arrival: Arrival) -> Message:
    """Return which message a request brought."""
    return arrival.type, arrival.order
