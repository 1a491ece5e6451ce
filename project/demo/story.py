"""The story: orders come in, one is undone; and what must have come of it."""

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from project.demo.customers import ACME, BIRCH, CEDAR, CONSUMERS, OFFICE, Consumer
from project.demo.receiver import Arrival
from project.demo.registration import PATIENCE
from project.demo.screen import Screen
from project.shop import services
from project.shop.models import Customer
from webhooks_app.models import Delivery

UNDONE_ITEM = "a unicorn"
SHELF = ("a lamp", "two chairs", "a desk", "a kettle", "three mugs", "a rug")
Message = tuple[str, int]  # type of event, number of the order


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the messages are; counted in messages per consumer."""

    arrived: int
    retrying: int
    given_up: int
    expected: int
    hopeless: int

    @property
    def done(self) -> bool:
        """Whether nothing is left to wait for."""
        return self.arrived >= self.expected and self.given_up >= self.hopeless

    def __str__(self) -> str:
        return (
            f"  {self.arrived} of {self.expected} messages arrived and checked"
            f" · {self.retrying} waiting for another try · {self.given_up} given up"
        )


@dataclass
class Story:
    """Tells the story on the screen and remembers what every consumer must receive."""

    screen: Screen
    expected: dict[str, set[Message]] = field(
        default_factory=lambda: {each.host: set() for each in CONSUMERS}
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
        messages = {("order.placed", order.pk)}
        if pay:
            services.pay_order(order)
            messages.add(("order.paid", order.pk))
        for host in (consumer.host, OFFICE.host):
            self.expected[host] |= messages
        self.screen.say(f"  {consumer.name} orders {item}{' and pays' if pay else ''}")

    def progress(self, arrivals: Sequence[Arrival]) -> Progress:
        """Compare what arrived with what should, and ask the sender's own records about the rest."""
        got = {(each.host, message_of(each)) for each in arrivals if each.answer == 200}
        open_rows = Delivery.objects.filter(state="pending")
        return Progress(
            arrived=len(got & set(self._wanted())),
            retrying=open_rows.filter(attempts__gt=0).count(),
            given_up=Delivery.objects.filter(state="exhausted").count(),
            expected=len(list(self._wanted())),
            hopeless=len(self.expected[CEDAR.host]),
        )

    def verdict(self, arrivals: Sequence[Arrival]) -> list[tuple[bool, str]]:
        """Return every promise of the product with whether it was kept."""
        return [
            *(self._reached(consumer, arrivals) for consumer in (ACME, OFFICE)),
            self._recovered(arrivals),
            self._given_up(),
            self._nothing_else(arrivals),
            (all(each.verified for each in arrivals), "every message carried a valid signature"),
        ]

    def _reached(self, consumer: Consumer, arrivals: Sequence[Arrival]) -> tuple[bool, str]:
        wanted = self.expected[consumer.host]
        got = Counter(message_of(each) for each in arrivals if each.host == consumer.host)
        return got == Counter(wanted), f"{consumer.name}: {len(wanted)} messages, each arrived once"

    def _recovered(self, arrivals: Sequence[Arrival]) -> tuple[bool, str]:
        wanted = self.expected[BIRCH.host]
        answers: dict[Message, list[tuple[int, int]]] = {message: [] for message in wanted}
        for each in (each for each in arrivals if each.host == BIRCH.host):
            answers.setdefault(message_of(each), []).append((each.attempt, each.answer))
        right = [(1, 503), (2, 503), (3, 200)]
        return (
            all(each == right for each in answers.values()),
            f"{BIRCH.name}: {len(wanted)} messages, refused twice and accepted at the third try",
        )

    def _given_up(self) -> tuple[bool, str]:
        rows = Delivery.objects.filter(endpoint__tenant_id=CEDAR.tenant)
        facts = [(row.state, row.attempts) for row in rows]
        right = [("exhausted", len(PATIENCE) + 1)] * len(self.expected[CEDAR.host])
        return (
            facts == right,
            f"{CEDAR.name}: given up after {len(PATIENCE) + 1} tries; kept, and can be sent again",
        )

    def _nothing_else(self, arrivals: Sequence[Arrival]) -> tuple[bool, str]:
        strange = [each for each in arrivals if message_of(each) not in self.expected[each.host]]
        undone = [each for each in arrivals if each.event.get("data", {}).get("item") == UNDONE_ITEM]
        return not strange and not undone, "nobody heard of the undone order, or of another customer's orders"

    def _wanted(self) -> Iterator[tuple[str, Message]]:
        for consumer in CONSUMERS:
            if consumer.reachable:
                yield from ((consumer.host, message) for message in self.expected[consumer.host])

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
    return str(arrival.event.get("type", "")), int(arrival.event.get("data", {}).get("order", 0))
