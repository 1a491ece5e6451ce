"""Celery beat across the changes of summer time, in a host project that runs on Berlin time (B048)."""

import re
import statistics
from itertools import pairwise
from pathlib import Path

import pytest

from tests.e2e.processes import Beat

SPEED = 20
TICK = 5.0

# The hour that Berlin lives twice, and the one that it skips.
CHANGES = {"to winter": "2026-10-25 00:57:00", "to summer": "2027-03-28 00:57:00"}


def faketime_library():
    found = [*Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), *Path("/usr/lib/faketime").glob("*MT*")]
    return str(found[0]) if found else None


@pytest.mark.parametrize(("change", "enable_utc"), [("to winter", True), ("to summer", False)])
def test_the_tick_keeps_its_interval(stage, change, enable_utc):
    library = faketime_library()
    if library is None:
        pytest.skip("not run, optional: beat in summer time (package faketime)")
    stage.choice.celery |= {"timezone": "Europe/Berlin", "enable_utc": enable_utc}
    beat = Beat(
        stage.folder,
        stage.choice,
        environment={
            "LD_PRELOAD": library,
            "FAKETIME": f"@{CHANGES[change]} x{SPEED}",
            "FAKETIME_DONT_FAKE_MONOTONIC": "0",
            "TZ": "UTC",
        },
    )
    stage.keep(beat)
    beat.start()
    stage.until(lambda: past_the_change(beat), 60, f"half a minute of ticks after it:\n{beat.text()[-1500:]}")
    seen = ticks(beat)
    gaps = [(later - earlier) % 3600 for earlier, later in pairwise(seen)]
    # A second of ours is twenty of theirs, so a busy machine delays a tick; it must not lose one.
    assert statistics.median(gaps) == TICK
    assert max(gaps) < 60, gaps
    assert seen[0] % 3600 > 1800, "the change lies within"


def past_the_change(beat):
    return any(0 < moment % 3600 < 1800 for moment in ticks(beat)[-6:-5])


def ticks(beat):
    """Return the second of the day at which each tick was sent, by the log's clock."""
    pattern = r"(\d\d):(\d\d):(\d\d),\d+: INFO/MainProcess\] Scheduler: Sending due task webhooks-tick"
    found = re.findall(pattern, beat.text())
    return [int(hour) * 3600 + int(minute) * 60 + int(second) for hour, minute, second in found]
