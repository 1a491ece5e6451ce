"""The acts of the play, each with its own heading on the screen."""

from collections.abc import Callable
from dataclasses import dataclass, field

from project.demo.client import Client
from project.demo.customers import CEDAR, DAHLIA
from project.demo.processes import Processes
from project.demo.receiver import Receiver
from project.demo.screen import Screen
from project.demo.story import Story
from project.demo.waiting import wait_for

ACT_SECONDS = 35.0


@dataclass
class Scene:
    """What the acts play with. `webhooks` are the ids of the registered addresses, by host."""

    story: Story
    receiver: Receiver
    client: Client
    processes: Processes
    screen: Screen
    began: str
    webhooks: dict[str, str] = field(default_factory=dict)

    def until(self, happened: Callable[[], bool], what: str) -> None:
        """Wait until something has happened.

        Raises:
            TookTooLong: it did not.
            ProcessDied: a process of the demo has ended.
        """

        def check() -> bool:
            self.processes.check()
            return happened()

        wait_for(check, what, seconds=ACT_SECONDS)

    def watch(self) -> None:
        """Show the progress until everything has arrived that can."""

        def happened() -> bool:
            progress = self.story.progress(self.receiver.arrivals())
            self.screen.progress(str(progress))
            return progress.done

        self.until(happened, "the end of this act")
        self.screen.end_progress()


def orders(scene: Scene) -> None:
    """Customers order; their systems work, trip, are broken or are not there."""
    scene.screen.say("\nOrders come in; each order and its message are saved together, or not at all:")
    scene.story.tell()
    scene.screen.say("\nThe messages are on their way:")
    scene.watch()


def breakdown(scene: Scene) -> None:
    """A system breaks down: the sender notices, holds its messages back, and finds out when it is well."""
    story, screen = scene.story, scene.screen
    screen.say(f"\n{DAHLIA.name}'s computer breaks down while {DAHLIA.name} is ordering:")
    scene.receiver.break_down(DAHLIA.host)
    for item in ("a vase", "a clock", "a bench"):
        story.order(DAHLIA, item)
    scene.until(lambda: story.is_held(DAHLIA), "that the sender notices")
    screen.say(f"  The sender noticed (its circuit breaker opened): {DAHLIA.name}'s messages are held back")
    for item in ("a mirror", "a ladder"):
        story.order(DAHLIA, item)
    screen.say(f"  {DAHLIA.name}'s computer is mended; the sender will find out by trying one message:")
    scene.receiver.mend(DAHLIA.host)
    scene.watch()


def comeback(scene: Scene) -> None:
    """A system that was away asks for what it missed."""
    scene.screen.say(f"\n{CEDAR.name} switches its computer on and asks the API for what it missed:")
    scene.receiver.switch_on()
    scene.story.out_of_reach.remove(CEDAR.host)
    job = scene.client.recover(scene.webhooks[CEDAR.host], scene.began)
    scene.screen.say(f"  {job['total']} message is missing; the API begins a job that sends it again")
    scene.watch()
