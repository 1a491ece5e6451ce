"""How often a caller may ask, counted by the minute in Django's default cache.

A cache of each process's own (LocMemCache, Django's default) counts for each process, Redis and Memcached for
all: there `incr` is one step. Without a cache nobody is refused.
"""

import hashlib
import logging
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from django.core.cache import cache

from .. import conf
from ..actions.actor import Actor
from .callers import caller_mark
from .operations import Operation
from .problems import RateLimited

logger = logging.getLogger("webhooks_app.api")

MINUTE: Final = 60
# So long after a failure the cache is left alone, and the log: a request must not wait for it each time.
PAUSE: Final = 10.0


@dataclass(frozen=True, slots=True)
class Standing:
    """How a caller stands in one bucket: requests a minute, those left, seconds until it begins anew."""

    bucket: str
    limit: int
    remaining: int
    reset: int

    def headers(self) -> dict[str, str]:
        """Return what every answer tells of it."""
        return {
            "RateLimit-Limit": str(self.limit),
            "RateLimit-Remaining": str(max(self.remaining, 0)),
            "RateLimit-Reset": str(self.reset),
        }


# Tests replace it.
now_seconds = time.time


class _Away:
    """Until when the cache is taken to be away."""

    until = -math.inf


def count(actor: Actor, operation: Operation) -> Standing | None:
    """Count one request and return how its caller stands in the bucket that is fullest; None = not counted.

    Raises RateLimited when one of the caller's buckets is full.
    """
    fullest: Standing | None = None
    if time.monotonic() < _Away.until:
        return None
    try:
        for standing in _standings(actor, operation):
            if standing.remaining < 0:
                raise RateLimited(standing.bucket, {**standing.headers(), "Retry-After": str(standing.reset)})
            if fullest is None or standing.remaining * fullest.limit < fullest.remaining * standing.limit:
                fullest = standing
    except RateLimited:
        raise
    except Exception:
        _Away.until = time.monotonic() + PAUSE
        logger.warning("requests are not counted, for the cache fails", exc_info=True)
        return None
    return fullest


def _standings(actor: Actor, operation: Operation) -> Iterator[Standing]:
    """Count in one bucket after the other; those behind a full one are spared."""
    now = now_seconds()
    minute, reset = int(now // MINUTE), math.ceil(MINUTE - now % MINUTE)
    limits = conf.current().API_RATE_LIMITS
    for bucket, who in _buckets(actor, operation):
        if bucket in limits:
            mark = hashlib.sha256(who.encode("utf-8", "surrogatepass")).hexdigest()[:32]
            used = _add_one(f"webhooks:{bucket}:{mark}:{minute}")
            yield Standing(bucket, limits[bucket], limits[bucket] - used, reset)


def _buckets(actor: Actor, operation: Operation) -> Iterator[tuple[str, str]]:
    """Yield the caller's buckets, and whose they are."""
    if operation.costly:
        yield "operation", f"{caller_mark(actor)} {operation.id}"
    yield "key", caller_mark(actor)
    if actor.scope_id is not None:
        yield actor.scope, actor.scope_id


def _add_one(key: str) -> int:
    try:
        return int(cache.incr(key))
    except ValueError:
        # Nobody has asked in this minute yet, or somebody is the first at this moment.
        return 1 if cache.add(key, 1, 2 * MINUTE) else int(cache.incr(key))
