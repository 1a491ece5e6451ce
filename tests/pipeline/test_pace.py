"""The pace of bulk work: full speed alone, small steps and rests beside live work."""

import pytest

from webhooks_app.pipeline.gates import BATCH_IN_ALL
from webhooks_app.pipeline.pace import AT_ONCE, LIVE_FOR, LONGEST_REST, QUEUEING, SENDING, Pace


def test_alone_bulk_work_goes_as_fast_as_it_can():
    pace = Pace()
    for in_rounds in (False, True):
        assert pace.most(1_000.0, in_rounds=in_rounds) == BATCH_IN_ALL
    assert pace.rest(5.0, 1_000.0) == 0


def test_beside_live_work_only_the_rounds_take_some_and_rest():
    pace = Pace()
    pace.saw_live(1_000.0)
    assert pace.most(1_000.0, in_rounds=False) == 0
    assert pace.most(1_000.0, in_rounds=True) == AT_ONCE
    assert pace.rest(0.01, 1_000.0) == pytest.approx(SENDING * 0.01)
    assert pace.rest(0.01, 1_000.0, times=QUEUEING) == pytest.approx(QUEUEING * 0.01)


def test_a_rest_has_an_end_however_long_the_step_was():
    pace = Pace()
    pace.saw_live(1_000.0)
    assert pace.rest(60.0, 1_000.0) == LONGEST_REST


def test_without_new_events_full_speed_returns_after_some_seconds():
    pace = Pace()
    pace.saw_live(1_000.0)
    pace.saw_live(1_005.0)
    assert pace.is_beside_live(1_004.0 + LIVE_FOR)
    assert not pace.is_beside_live(1_005.0 + LIVE_FOR)
    assert pace.most(1_005.0 + LIVE_FOR, in_rounds=False) == BATCH_IN_ALL
