"""The director: prepares, registers the customers, lets the story happen, and says what came of it."""

import itertools
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime

from project.demo import acts
from project.demo.acts import Scene
from project.demo.client import Client, address
from project.demo.customers import ACME, BIRCH, BY_HOST, CEDAR, CONSUMERS, DAHLIA
from project.demo.environment import Run
from project.demo.login import USER, Login, make_login
from project.demo.processes import Processes
from project.demo.receiver import BROKEN, Arrival, Receiver
from project.demo.screen import Screen
from project.demo.story import SHELF, Story
from project.demo.verdict import PING, verdict
from project.demo.waiting import EVERY, wait_for

START_SECONDS = 20.0
NEXT_ORDER_SECONDS = 5.0


def play(run: Run, processes: Processes, screen: Screen, *, once: bool) -> bool:
    """Run the demo once, then go on with an order every few seconds unless `once`.

    Returns:
        Whether everything arrived as it should. Ends by KeyboardInterrupt when not `once`.
    """
    screen.say(
        "A small shop tells its customers' computers about their orders: by webhooks, signed messages.\n"
    )
    receiver = Receiver(run.receiver_port, run.dead_port, run.certificate, _reporter(screen))
    receiver.start()
    try:
        login = _prepare(run, processes, screen)
        client, began = Client(run.site, login.key), datetime.now(UTC).isoformat()
        scene = Scene(Story(screen), receiver, client, processes, screen, began)
        _register(run, scene)
        for act in (acts.orders, acts.breakdown, acts.comeback):
            act(scene)
        kept = _judge(scene)
        if not once:
            _show_where_to_click(run, login, screen)
            _go_on(scene)
        return kept
    finally:
        receiver.stop()


def _prepare(run: Run, processes: Processes, screen: Screen) -> Login:
    screen.say("Preparing a database and starting three programs: web pages, sender, clock …")
    login = make_login()
    processes.start_all()

    def happened() -> bool:
        processes.check()
        return _answers(run.site)

    wait_for(happened, "the start of the web pages", seconds=START_SECONDS)
    return login


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except urllib.error.HTTPError:
        raise
    except OSError:
        return False


def _register(run: Run, scene: Scene) -> None:
    scene.screen.say(
        "\nEach customer registers an address over the API and gets a secret to check signatures with:"
    )
    for consumer in CONSUMERS:
        port = run.receiver_port if consumer.reachable else run.dead_port
        scene.receiver.behave(consumer.host, refusals=consumer.refusals, stumbles=consumer.stumbles)
        answer = scene.client.register(consumer, port)
        scene.receiver.secrets[consumer.host] = answer["secret"]
        scene.webhooks[consumer.host] = answer["id"]
        scene.screen.say(f"  {consumer.name:<12}{address(consumer, port):<44}{consumer.habit}")


def _judge(scene: Scene) -> bool:
    promises = verdict(scene.story, scene.receiver.arrivals())
    scene.screen.say("\nWhat came of it (signatures checked with the official standardwebhooks library):")
    for kept, promise in promises:
        scene.screen.say(f"  {'✓' if kept else '✗ NOT'} {promise}")
    return all(kept for kept, _ in promises)


def _show_where_to_click(run: Run, login: Login, screen: Screen) -> None:
    screen.say(
        f"\nLook around:\n"
        f"  {run.site}/admin/      user {USER}, password {login.password}\n"
        f"  {run.site}/v1/docs/    the API, with every call explained\n"
        f"  curl -H 'Authorization: Bearer {login.key}' {run.site}/v1/events\n"
        f"\nAn order comes in every {NEXT_ORDER_SECONDS:.0f} seconds. "
        f"Ctrl-C ends everything and removes its data.\n"
    )


def _go_on(scene: Scene) -> None:
    turns = itertools.cycle(itertools.product(SHELF, (ACME, BIRCH, DAHLIA, CEDAR)))
    due = time.monotonic()
    while True:
        scene.processes.check()
        if time.monotonic() >= due:
            item, customer = next(turns)
            scene.story.order(customer, item)
            due += NEXT_ORDER_SECONDS
        scene.screen.progress(str(scene.story.progress(scene.receiver.arrivals())))
        time.sleep(EVERY)


def _reporter(screen: Screen) -> Callable[[Arrival], None]:
    def report(arrival: Arrival) -> None:
        name = BY_HOST[arrival.host].name if arrival.host in BY_HOST else arrival.host
        screen.say(f"    {name} {_what_happened(arrival)}")

    return report


def _what_happened(arrival: Arrival) -> str:
    if not arrival.verified:
        return "got a message whose signature is wrong"
    did = "refused" if arrival.answer == BROKEN else "got"
    ends = ": it is well again, so the others follow" if arrival.comeback else ""
    if arrival.type == PING:
        return f"{did} a question whether it is well{ends}"
    attempt = f" at try {arrival.attempt}" if arrival.attempt > 1 else ""
    return f'{did} "order {arrival.order} {arrival.type.removeprefix("order.")}"{attempt}{ends}'
