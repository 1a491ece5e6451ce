"""Pools of idle guarded connections, by scheme, host name and port; bounded in number and in age."""

from threading import Lock
from time import monotonic
from typing import Any

from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.poolmanager import PoolManager

from ..core.ssrf import Target
from .connections import GuardedConnection, GuardedTLSConnection
from .options import NetOptions
from .tls import client_context

Key = tuple[str, str, int]

# Seconds between two looks for pools that nobody uses any more.
_SWEEP_EVERY = 10.0


class GuardedPool(HTTPConnectionPool):
    """The idle connections of one host."""

    ConnectionCls = GuardedConnection


class GuardedTLSPool(HTTPSConnectionPool):
    """The same for https."""

    ConnectionCls = GuardedTLSConnection


class GuardedPools(PoolManager):
    """The pools of one transport.

    The least recently used pool makes room for a new one, and a pool whose connections are all too old
    to be used again is dropped. A dropped pool closes its connections once no attempt uses it.
    """

    def __init__(self, options: NetOptions) -> None:
        super().__init__(num_pools=options.pools, maxsize=options.per_host, block=False)
        self.pool_classes_by_scheme = {"http": GuardedPool, "https": GuardedTLSPool}
        self._options = options
        self._used: dict[Key, float] = {}
        self._next_sweep = 0.0
        self._sweeping = Lock()

    def pool_of(self, target: Target) -> HTTPConnectionPool:
        """Return the target's pool, a new one if need be."""
        key = (target.scheme, target.host, target.port)
        now = monotonic()
        self._used[key] = now
        if now >= self._next_sweep and self._sweeping.acquire(blocking=False):
            try:
                self._sweep(now)
            finally:
                self._sweeping.release()
        pool = self.pools.get(key)  # type: ignore[call-overload]
        return pool or self.connection_from_pool_key(key, self._context(target))  # type: ignore[arg-type]

    def _context(self, target: Target) -> dict[str, Any]:
        context = {"scheme": target.scheme, "host": target.host, "port": target.port}
        if target.scheme == "https":
            context["ssl_context"] = client_context(self._options.ca_bundle)
        return context | self.connection_pool_kw

    def _sweep(self, now: float) -> None:
        self._next_sweep = now + _SWEEP_EVERY
        oldest = now - self._options.conn_max_age
        for key, used in list(self._used.items()):
            if used < oldest:
                self._used.pop(key, None)
                self.pools.pop(key, None)  # type: ignore[call-overload]
