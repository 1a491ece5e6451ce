"""Everything breaks at random under load; afterwards nothing is lost, invented or numbered twice.

CHAOS_SECONDS   how long to break things (default 60)
CHAOS_SEED      repeats the order of acts of an earlier run, though not its timing
"""

import os

from tests.chaos.story import tell
from tests.e2e.broker import Broker


def test_everything_breaks(make_stage, own_redis, own_postgres, capsys):
    stage = make_stage(Broker(own_redis.url), postgres=own_postgres.url)
    seconds = float(os.environ.get("CHAOS_SECONDS") or 60)
    with capsys.disabled():
        tell(stage, own_redis, own_postgres, seconds=seconds, workers=3, concurrency=2)
