"""The director: prepares, registers the customers, lets the story happen, and says what came of it."""

import itertools
import time
import urllib.error
import urllib.request
from collections.abc import Callable

from project.demo.customers import ACME, BIRCH, BY_HOST, CEDAR, CONSUMERS
from project.demo.environment import Run
from project.demo.login import USER, Login, make_login
from project.demo.processes import Processes
from project.demo.receiver import BROKEN, Arrival, Receiver
from project.demo.registration import address, register
from project.demo.screen import Screen
from project.demo.story import SHELF, Story
from project.demo.waiting import EVERY, wait_for

START_SECONDS = 20.0
STORY_SECONDS = 35.0
NEXT_ORDER_SECONDS = 5.0


def play(run: Run, processes: Processes, screen: Screen, *, once: bool) -> bool:
    """Run the demo once, then go on with an order every few seconds unless `once`.

    Returns:
        Whether everything arrived as it should. Ends by KeyboardInterrupt when not `once`.
    """
    screen.say(
        "A small shop tells its customers' computers about their orders: by webhooks, signed messages.\n"
    )
    story, receiver = Story(screen), Receiver(run.receiver_port, run.certificate, _reporter(screen))
    receiver.start()
    try:
        login = _prepare(run, processes, screen)
        _register(run, login, receiver, screen)
        kept = _perform(story, receiver, processes, screen)
        if not once:
            _show_where_to_click(run, login, screen)
            _go_on(story, receiver, processes, screen)
        return kept
    finally:
        receiver.stop()


def _prepare(run: Run, processes: Processes, screen: Screen) -> Login:
    screen.say("Preparing a database and starting three programs: web pages, sender, clock …")
    login = make_login()
    processes.start_all()
    wait_for(
        _checked(processes, lambda: _answers(run.site)), "the start of the web pages", seconds=START_SECONDS
    )
    return login


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except urllib.error.HTTPError:
        raise
    except OSError:
        return False


def _checked(processes: Processes, happened: Callable[[], bool]) -> Callable[[], bool]:
    def check() -> bool:
        processes.check()
        return happened()

    return check


def _register(run: Run, login: Login, receiver: Receiver, screen: Screen) -> None:
    screen.say(
        "\nEach customer registers an address over the API and gets a secret to check signatures with:"
    )
    for consumer in CONSUMERS:
        port = run.receiver_port if consumer.reachable else run.dead_port
        receiver.refusals[consumer.host] = consumer.refusals
        answer = register(run.site, login.key, consumer, port)
        receiver.secrets[consumer.host] = answer["secret"]
        screen.say(f"  {consumer.name:<12}{address(consumer, port):<46}{consumer.habit}")


def _perform(story: Story, receiver: Receiver, processes: Processes, screen: Screen) -> bool:
    screen.say("\nOrders come in; each order and its message are saved together, or not at all:")
    story.tell()
    screen.say("\nThe messages are on their way:")
    _watch(story, receiver, processes, screen)
    return _judge(story, receiver, screen)


def _watch(story: Story, receiver: Receiver, processes: Processes, screen: Screen) -> None:
    def happened() -> bool:
        progress = story.progress(receiver.arrivals())
        screen.progress(str(progress))
        return progress.done

    wait_for(_checked(processes, happened), "the end of the story", seconds=STORY_SECONDS)
    screen.end_progress()


def _judge(story: Story, receiver: Receiver, screen: Screen) -> bool:
    verdict = story.verdict(receiver.arrivals())
    screen.say("\nWhat came of it (signatures checked with the official standardwebhooks library):")
    for kept, promise in verdict:
        screen.say(f"  {'✓' if kept else '✗ NOT'} {promise}")
    return all(kept for kept, _ in verdict)


def _show_where_to_click(run: Run, login: Login, screen: Screen) -> None:
    screen.say(
        f"\nLook around:\n"
        f"  {run.site}/admin/      user {USER}, password {login.password}\n"
        f"  {run.site}/v1/docs/    the API, with every call explained\n"
        f"  curl -H 'Authorization: Bearer {login.key}' {run.site}/v1/events\n"
        f"\nAn order comes in every {NEXT_ORDER_SECONDS:.0f} seconds. "
        f"Ctrl-C ends everything and removes its data.\n"
    )


def _go_on(story: Story, receiver: Receiver, processes: Processes, screen: Screen) -> None:
    turns = itertools.cycle(itertools.product(SHELF, (ACME, BIRCH, ACME, CEDAR)))
    due = time.monotonic()
    while True:
        processes.check()
        if time.monotonic() >= due:
            item, customer = next(turns)
            story.order(customer, item)
            due += NEXT_ORDER_SECONDS
        screen.progress(str(story.progress(receiver.arrivals())))
        time.sleep(EVERY)


def _reporter(screen: Screen) -> Callable[[Arrival], None]:
    def report(arrival: Arrival) -> None:
        name = BY_HOST[arrival.host].name if arrival.host in BY_HOST else arrival.host
        if not arrival.verified:
            screen.say(f"    {name} got a message whose signature is wrong")
            return
        order, what = arrival.event["data"]["order"], arrival.event["type"].removeprefix("order.")
        did = "refused" if arrival.answer == BROKEN else "got"
        attempt = f" at try {arrival.attempt}" if arrival.attempt > 1 else ""
        screen.say(f'    {name} {did} "order {order} {what}"{attempt}')

    return report
