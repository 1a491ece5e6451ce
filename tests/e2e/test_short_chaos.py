"""The short form of the chaos suite: a few seconds of it with every `make test`."""

from tests.chaos.monkey import BRIEF
from tests.chaos.story import tell
from tests.e2e.broker import Broker


def test_everything_breaks_for_a_moment(make_stage, own_redis, own_postgres):
    stage = make_stage(Broker(own_redis.url), postgres=own_postgres.url)
    tell(stage, own_redis, own_postgres, seconds=6, workers=2, weights=BRIEF, concurrency=1)
