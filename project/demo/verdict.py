"""What must have come of the story: every promise of the product, and whether it was kept."""

from collections import Counter
from collections.abc import Sequence

from project.demo.customers import ACME, BIRCH, CEDAR, DAHLIA, OFFICE, STOCK, Consumer
from project.demo.receiver import BROKEN, Arrival
from project.demo.story import UNDONE_ITEM, Message, Story, message_of
from webhooks_app.models import Delivery

# A webhook that asks whether a receiver is well again; about no order.
PING = "webhook.ping"
Promise = tuple[bool, str]


def verdict(story: Story, arrivals: Sequence[Arrival]) -> list[Promise]:
    """Return every promise with whether it was kept."""
    return [
        *(_reached(consumer, story, arrivals) for consumer in (ACME, OFFICE)),
        _kept_order(story, arrivals),
        _tried_again(story, arrivals),
        _held_back(story, arrivals),
        _recovered(story, arrivals),
        _nothing_else(story, arrivals),
        (all(each.verified for each in arrivals), "every message carried a valid signature"),
    ]


def _at(consumer: Consumer, arrivals: Sequence[Arrival]) -> list[Arrival]:
    return [each for each in arrivals if each.host == consumer.host and each.type != PING]


def _accepted(consumer: Consumer, arrivals: Sequence[Arrival]) -> list[Message]:
    return [message_of(each) for each in _at(consumer, arrivals) if each.answer == 200]


def _reached(consumer: Consumer, story: Story, arrivals: Sequence[Arrival]) -> Promise:
    wanted = story.expected[consumer.host]
    got = [message_of(each) for each in _at(consumer, arrivals)]
    return Counter(got) == Counter(wanted), f"{consumer.name}: {len(wanted)} messages, each arrived once"


def _kept_order(story: Story, arrivals: Sequence[Arrival]) -> Promise:
    wanted = story.expected[STOCK.host]
    got = [message_of(each) for each in _at(STOCK, arrivals)]
    return (
        got == wanted[:1] + wanted,
        f"{STOCK.name}: {len(wanted)} messages in order; the others waited for the one that was refused",
    )


def _tried_again(story: Story, arrivals: Sequence[Arrival]) -> Promise:
    wanted = story.expected[BIRCH.host]
    answers: dict[Message, list[tuple[int, int]]] = {message: [] for message in wanted}
    for each in _at(BIRCH, arrivals):
        answers.setdefault(message_of(each), []).append((each.attempt, each.answer))
    right = [(1, BROKEN), (2, BROKEN), (3, 200)]
    return (
        all(each == right for each in answers.values()),
        f"{BIRCH.name}: {len(wanted)} messages, refused twice and accepted at the third try",
    )


def _held_back(story: Story, arrivals: Sequence[Arrival]) -> Promise:
    """What came after the breaker had opened has used up none of its tries."""
    wanted, failures = story.expected[DAHLIA.host], DAHLIA.policy["breaker"]["failures"]
    rows = Delivery.objects.filter(endpoint__tenant_id=DAHLIA.tenant).order_by("position")
    steps = [row.step for row in rows]
    return (
        Counter(_accepted(DAHLIA, arrivals)) == Counter(wanted)
        and all(steps[:failures])
        and not any(steps[failures:]),
        f"{DAHLIA.name}: {len(wanted)} messages, held back after {failures} failures until it was well again",
    )


def _recovered(story: Story, arrivals: Sequence[Arrival]) -> Promise:
    rows = Delivery.objects.filter(endpoint__tenant_id=CEDAR.tenant)
    wanted = story.expected[CEDAR.host]
    return (
        [(row.state, row.attempts) for row in rows] == [("delivered", CEDAR.tries + 1)] * len(wanted)
        and _accepted(CEDAR, arrivals) == wanted,
        f"{CEDAR.name}: given up after {CEDAR.tries} tries, and sent again when Cedar asked",
    )


def _nothing_else(story: Story, arrivals: Sequence[Arrival]) -> Promise:
    about_orders = [each for each in arrivals if each.type != PING]
    strange = [each for each in about_orders if message_of(each) not in story.expected[each.host]]
    undone = [each for each in about_orders if each.event.get("data", {}).get("item") == UNDONE_ITEM]
    return not strange and not undone, "nobody heard of the undone order, or of another customer's orders"
