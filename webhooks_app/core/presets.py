"""The presets: four rows of data; nothing else in the code knows their names."""

from collections.abc import Mapping
from types import MappingProxyType

from .policy import DAY, AutoDisable, Breaker, Policy

_FAILING = frozenset(range(300, 600))
_REDIRECTS = frozenset(range(300, 400))
_SERVER_ERRORS = frozenset(range(500, 600))

STANDARD = Policy(
    name="standard",
    waits=(30, 120, 600, 1800, 3600, 7200, 14_400, 28_800, 43_200, 43_200, 43_200, 68_400),
    jitter=0.1,
    jitter_kind="random",
    connect_timeout=5.0,
    total_timeout=15.0,
    reply_bytes=4096,
    retried=_FAILING - {410},
    retry_after_on=_FAILING,
    retry_refused=True,
    gone_disables=True,
    auto_disable=AutoDisable(failures=100, span=DAY),
)

STRICT = Policy(
    name="strict",
    waits=(5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400),
    jitter=0.2,
    jitter_kind="delivery",
    max_wait=103_680.0,  # the longest wait with all of its jitter: 28.8 h
    window=4 * DAY,  # over 91 h, the waits' sum with all of their jitter; consumers keep ids as long
    connect_timeout=5.0,
    total_timeout=20.0,
    reply_bytes=8192,
    retried=frozenset({401, 407, 409, 429}) | _SERVER_ERRORS,
    retry_after_on=frozenset({429, 503}),
    free_deferrals=3,
    retry_refused=False,
    gone_disables=True,
    warns_redirect=True,
    auto_disable=AutoDisable(
        failures=2,
        span=5 * DAY,
        start_within=DAY,
        start_span=DAY / 2,
        warnings=(0.6,),  # after 72 hours
    ),
    breaker=Breaker(
        failures=10,
        open_seconds=30.0,
        probe_seconds=30.0,
        probes=3,
        probes_to_half_open=0,
        successes_to_close=1,
    ),
    notify_tenant=True,
    default_signing=("v1a",),
    default_format="cloudevents",
)

EXPONENTIAL = Policy(
    name="exponential",
    # 14 waits: even with the smallest jitter it is the window that ends the schedule.
    waits=tuple(30.0 * 2**doubling for doubling in range(14)),
    jitter=0.3,
    jitter_kind="random",
    max_wait=3 * DAY,  # a Retry-After may ask for all of the time that is left
    window=3 * DAY,
    connect_timeout=5.0,
    total_timeout=20.0,
    reply_bytes=8192,
    retried=frozenset({408, 429}) | _SERVER_ERRORS | _REDIRECTS,
    retry_after_on=_FAILING,
    retry_refused=False,
    gone_disables=False,
    auto_disable=None,
    breaker=Breaker(
        failures=30,
        open_seconds=60.0,
        probe_seconds=60.0,
        probes=1,
        probes_to_half_open=2,
        successes_to_close=1,
    ),
    replay_id="new",
    replay_while_open=False,
)

QUICK = Policy(
    name="quick",
    waits=(1, 2, 4, 8),
    jitter=0.0,
    jitter_kind="none",
    connect_timeout=5.0,
    total_timeout=10.0,
    reply_bytes=4096,
    retried=frozenset({408, 429}) | _SERVER_ERRORS,
    retry_after_on=_FAILING,
    retry_refused=False,
    gone_disables=False,
    auto_disable=None,
    honours_control=False,
    default_signing=("sha256",),
    default_format="cloudevents",
    default_ordering="fifo",
    default_max_in_flight=1,
)

PRESETS: Mapping[str, Policy] = MappingProxyType(
    {policy.name: policy for policy in (STANDARD, STRICT, EXPONENTIAL, QUICK)}
)
