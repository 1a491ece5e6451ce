"""What follows from a record: health, breakers, lanes, counters, events about endpoints, and whom to wake."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain

from ..core.states import DEAD, EXHAUSTED
from .counts import count_outcomes
from .health import SUCCESS_NEWS, apply_outcomes
from .judge import Judged
from .lanes import promote
from .probes import bring_back
from .state_rows import StateRow, changed_rows, note_secret_use, save_states
from .system_events import write_changes, write_exhausted
from .transactions import Tx
from .wakes import wake_later, wake_starved
from .work import Done, Ended, Job, Lease, News

# After these there is something to send to the endpoint at once.
_LETS_GO = ("webhook.breaker_closed", "webhook.breaker_half_opened")


@dataclass(slots=True)
class Recorded:
    """What a record wrote: attempts, deliveries that ended, changes of endpoints, and whom to wake.

    `events`: the sender's own events wait for fan-out. `kept` was not written: somebody has the state rows
    of these endpoints locked. `reported` are probes.
    """

    attempts: list[Judged] = field(default_factory=list)
    released: int = 0
    ended: list[Ended] = field(default_factory=list)
    news: list[News] = field(default_factory=list)
    events: bool = False
    wake: set[int] = field(default_factory=set)
    later: dict[int, float] = field(default_factory=dict)
    kept: list[Done] = field(default_factory=list)
    reported: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Scene:
    """A record under way: its transaction, the claim, the locked state rows, and the time."""

    tx: Tx
    lease: Lease
    states: Mapping[int, StateRow]
    now: datetime

    def holds_probe(self, endpoint_id: int) -> bool:
        """Whether the outcome of this claim moves the endpoint's open breaker."""
        state = self.states.get(endpoint_id)
        return state is not None and state.probe_token == self.tx.dialect.uuid(self.lease.token)


def follow_up(scene: Scene, recorded: Recorded, released: Sequence[Done]) -> None:
    """Do what the outcomes mean for the endpoints, and find out whom to wake."""
    attempts, states = recorded.attempts, scene.states
    jobs = [*(each.job for each in attempts), *(done.job for done in released)]
    outcomes = _by_endpoint(attempts)
    probes = {key for key in states if scene.holds_probe(key)}
    apply_outcomes(states, outcomes, scene.lease.gates, probes=probes, now=scene.now)
    _finish_probes(scene, recorded, [job for job in jobs if job.trigger == "probe"])
    lanes = {(job.endpoint_id, job.lane) for job in jobs if job.lane is not None}
    followed = scene.lease.followed
    freed = {job.endpoint_id for job in jobs if job.id not in followed} & states.keys()
    recorded.wake = wake_starved({key: states[key] for key in freed}) | promote(scene.tx, lanes, scene.now)
    recorded.wake |= {done.job.endpoint_id for done in released if done.content}
    recorded.later = wake_later(states, attempts, scene.now)
    _tell(scene, recorded)
    _save(scene, outcomes)
    recorded.ended = [_ended(each) for each in attempts if each.ends and each.outcome.state in DEAD]


def _by_endpoint(judged: Sequence[Judged]) -> dict[int, list[Judged]]:
    grouped: dict[int, list[Judged]] = {}
    for each in sorted(judged, key=lambda one: one.done.finished_at):
        grouped.setdefault(each.job.endpoint_id, []).append(each)
    return grouped


def _finish_probes(scene: Scene, recorded: Recorded, jobs: Sequence[Job]) -> None:
    """Let the next round of probes go once every probe of this one has reported."""
    lease, states = scene.lease, scene.states
    recorded.reported = {job.id for job in jobs}
    reported = lease.reported | recorded.reported
    for key in {job.endpoint_id for job in jobs} & states.keys():
        round_ = {job.id for job in lease.jobs if job.endpoint_id == key}
        if scene.holds_probe(key) and round_ <= reported:
            states[key].set(probe_token=None, probe_until=None)


def _tell(scene: Scene, recorded: Recorded) -> None:
    changes = list(chain.from_iterable(state.news for state in scene.states.values()))
    write_changes(scene.tx, changes, scene.lease.gates, scene.now)
    write_exhausted(scene.tx, recorded.attempts, scene.lease.gates, scene.now)
    recorded.news = [news for news, _ in changes]
    well = {news.endpoint_id for news in recorded.news if news.kind in _LETS_GO}
    bring_back(scene.tx, {key: scene.lease.gates[key].policy for key in sorted(well)}, scene.now)
    recorded.wake |= well
    exhausted = any(each.ends and each.outcome.state == EXHAUSTED for each in recorded.attempts)
    recorded.events = bool(changes) or exhausted


def _save(scene: Scene, outcomes: Mapping[int, Sequence[Judged]]) -> None:
    states, now = scene.states, scene.now
    save_states(scene.tx, changed_rows(states))
    known = {key: mine for key, mine in outcomes.items() if key in states}
    count_outcomes(scene.tx, known, {key: states[key].latency_ms for key in known}, now)
    good = [key for key, mine in known.items() if any(each.outcome.health == "success" for each in mine)]
    note_secret_use(scene.tx, [key for key in good if _is_stale(states[key], now)], now)


def _is_stale(state: StateRow, now: datetime) -> bool:
    return state.last_success_at is None or state.last_success_at < now - SUCCESS_NEWS


def _ended(each: Judged) -> Ended:
    job = each.job
    return Ended(
        job.id,
        job.endpoint_id,
        job.event_id,
        str(each.outcome.state),
        each.outcome.error,
        job.number,
        job.occurred,
        job.created,
    )
